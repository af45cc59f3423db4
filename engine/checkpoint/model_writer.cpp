#include "engine/checkpoint/model_writer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <unistd.h>
#include <utility>

#include "parbuckle/units.h"

#include "engine/checkpoint/quote.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "engine/checkpoint/saved_config.h"

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t chunk_elements = 256 * kib;
constexpr std::int64_t copied_bytes = 1 * mib;

/// Removed with everything in it unless it has been moved into place.
class StagingFolder {
 public:
  static Result<StagingFolder> create(const std::string& beside) {
    StagingFolder folder;
    folder.path_ = beside + ".partial-" + std::to_string(::getpid());
    std::error_code error;
    fs::remove_all(folder.path_, error);  // of a dead process that had the same id
    if (!fs::create_directories(folder.path_, error)) {
      return io_error(folder.path_ + ": cannot be created: " + error.message());
    }
    return folder;
  }
  StagingFolder(StagingFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;
  StagingFolder& operator=(StagingFolder&&) = delete;
  ~StagingFolder() {
    if (!path_.empty()) {
      std::error_code ignored;
      fs::remove_all(path_, ignored);
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
  void forget() { path_.clear(); }

 private:
  StagingFolder() = default;
  std::string path_;
};

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  return path;
}

fs::path nearest_existing(const fs::path& path) {
  fs::path at = fs::absolute(path);
  std::error_code ignored;
  while (!fs::exists(at, ignored) && at.has_relative_path()) {
    at = at.parent_path();
  }
  return at;
}

float largest_finite(StorageType type) {
  return type == StorageType::f16    ? 65504.0F
         : type == StorageType::bf16 ? 0x1.FEp127F
                                     : std::numeric_limits<float>::max();
}

class ModelSaver {
 public:
  ModelSaver(const ModelFolder& model, const SaveOptions& options, const ParameterSource& source)
      : model_(model),
        options_(options),
        source_(source),
        target_(without_trailing_slash(options.folder)) {}

  Result<SaveReport> save() {
    PARBUCKLE_TRY(check_output_folder(target_, options_.overwrite));
    plan();
    PARBUCKLE_TRY(check_space());
    PARBUCKLE_ASSIGN(StagingFolder staging, StagingFolder::create(target_));
    PARBUCKLE_TRY(write_weights(staging));
    PARBUCKLE_TRY(write_texts(staging));
    PARBUCKLE_TRY(copy_side_files(staging));
    PARBUCKLE_TRY(sync_folder(staging.path()));
    PARBUCKLE_TRY(move_into_place(staging));
    return std::move(report_);
  }

 private:
  void plan() {
    std::vector<TensorSpec> specs;
    for (const SavedTensor& saved : model_.saved_tensors()) {
      const Parameter& parameter = model_.parameters()[saved.parameter];
      specs.push_back({saved.name,
                       options_.type,
                       parameter.vector ? std::vector{parameter.rows}
                                        : std::vector{parameter.rows, parameter.columns}});
      report_.weight_bytes += specs.back().bytes();
    }
    shards_ = shards_of(specs, options_.max_shard_bytes);
    texts_ = options_.texts;
    add_text("config.json",
             model_.is_gguf() ? config_json_text(model_.config(), options_.type)
                              : config_with_type(model_.config_text(), options_.type));
    if (model_.is_gguf()) {
      add_text("generation_config.json", generation_config_text(model_.config()));
    }
    if (shards_.size() > 1) {
      add_text("model.safetensors.index.json", index_text(shards_));
    }
    for (const std::string& name : model_.side_files()) {
      if (!is_text(name)) {
        copies_.push_back(name);
      }
    }
  }
  [[nodiscard]] bool is_text(const std::string& name) const {
    return std::any_of(
        texts_.begin(), texts_.end(), [&](const TextFile& text) { return text.name == name; });
  }
  void add_text(const std::string& name, std::string text) {
    if (!is_text(name)) {
      texts_.push_back({name, std::move(text)});
    }
  }

  Status check_space() const {
    std::int64_t bytes = report_.weight_bytes;
    std::int64_t largest = 0;
    for (const std::vector<TensorSpec>& shard : shards_) {
      std::int64_t size = 1 * mib;  // its header and the file system's own bookkeeping
      for (const TensorSpec& tensor : shard) {
        size += tensor.bytes();
      }
      largest = std::max(largest, size);
      bytes += 1 * mib;
    }
    for (const TextFile& text : texts_) {
      bytes += static_cast<std::int64_t>(text.text.size());
    }
    for (const std::string& name : copies_) {
      std::error_code ignored;
      bytes += static_cast<std::int64_t>(fs::file_size(fs::path(model_.folder()) / name, ignored));
    }
    return check_disk_space(nearest_existing(target_).string(), bytes, largest);
  }

  Status write_weights(const StagingFolder& staging) {
    std::size_t saved = 0;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      const std::string name = shard_name(i, shards_.size());
      PARBUCKLE_ASSIGN(SafetensorsWriter writer,
                       SafetensorsWriter::create(staging.path(name), shards_[i]));
      for (std::size_t j = 0; j < shards_[i].size(); ++j, ++saved) {
        PARBUCKLE_TRY(write_tensor(writer, model_.saved_tensors()[saved]));
      }
      PARBUCKLE_TRY(writer.finish());
      report_.files.push_back(name);
    }
    return {};
  }

  Status write_tensor(SafetensorsWriter& writer, const SavedTensor& saved) {
    const Parameter& parameter = model_.parameters()[saved.parameter];
    const std::int64_t columns = parameter.columns;
    const std::int64_t chunk =
        columns <= chunk_elements ? chunk_elements / columns * columns : chunk_elements;
    for (std::int64_t at = 0; at < parameter.elements(); at += chunk) {
      const std::int64_t count = std::min(chunk, parameter.elements() - at);
      buffer_.resize(static_cast<std::size_t>(count));
      PARBUCKLE_TRY(source_(parameter, at, count, buffer_.data()));
      PARBUCKLE_TRY(check_values(saved.name, at));
      PARBUCKLE_TRY(writer.write(buffer_));
    }
    return {};
  }

  /// Neither a NaN nor an infinity is saved, nor a weight that would become one.
  Status check_values(const std::string& name, std::int64_t first) {
    const float limit = largest_finite(options_.type);
    for (std::size_t i = 0; i < buffer_.size(); ++i) {
      const float magnitude = std::fabs(buffer_[i]);
      if (!(magnitude <= limit)) {
        return invalid(target_ + ": tensor " + quote(name) + " holds " +
                       std::to_string(buffer_[i]) + " at element " +
                       std::to_string(first + static_cast<std::int64_t>(i)) +
                       ", which cannot be saved as " + std::string(to_string(options_.type)));
      }
      report_.largest = std::max(report_.largest, magnitude);
    }
    return {};
  }

  Status write_texts(const StagingFolder& staging) {
    for (const TextFile& text : texts_) {
      PARBUCKLE_ASSIGN(OutputFile file, OutputFile::create(staging.path(text.name), 0));
      PARBUCKLE_TRY(file.write_text(text.text));
      PARBUCKLE_TRY(file.finish());
      report_.files.push_back(text.name);
    }
    return {};
  }

  Status copy_side_files(const StagingFolder& staging) {
    std::vector<std::byte> piece;
    for (const std::string& name : copies_) {
      PARBUCKLE_ASSIGN(const InputFile from,
                       InputFile::open((fs::path(model_.folder()) / name).string()));
      PARBUCKLE_ASSIGN(OutputFile to, OutputFile::create(staging.path(name), from.size()));
      for (std::int64_t at = 0; at < from.size(); at += copied_bytes) {
        piece.resize(static_cast<std::size_t>(std::min(copied_bytes, from.size() - at)));
        PARBUCKLE_TRY(from.read(at, piece));
        PARBUCKLE_TRY(to.write(piece));
      }
      PARBUCKLE_TRY(to.finish());
      report_.files.push_back(name);
    }
    return {};
  }

  /// A new or empty target is replaced whole. Into an older one the files move one by one, each atomically: weights
  /// first, then the rest; weight files that the new model does not have go last.
  Status move_into_place(StagingFolder& staging) const {
    std::error_code ignored;
    if (!fs::exists(target_, ignored) || fs::is_empty(target_, ignored)) {
      PARBUCKLE_TRY(rename_durably(staging.path(), target_));
      staging.forget();
      return {};
    }
    for (const std::string& name : report_.files) {
      PARBUCKLE_TRY(rename_durably(staging.path(name), target_ + "/" + name));
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(target_, ignored)) {
      const std::string name = entry.path().filename().string();
      const bool weights = name.starts_with("model") && (name.ends_with(".safetensors") ||
                                                         name.ends_with(".safetensors.index.json"));
      if (weights &&
          std::find(report_.files.begin(), report_.files.end(), name) == report_.files.end()) {
        fs::remove(entry.path(), ignored);
      }
    }
    return sync_folder(target_);
  }

  const ModelFolder& model_;
  const SaveOptions& options_;
  const ParameterSource& source_;
  std::string target_;
  std::vector<std::vector<TensorSpec>> shards_;
  std::vector<TextFile> texts_;
  std::vector<std::string> copies_;
  std::vector<float> buffer_;
  SaveReport report_;
};

}  // namespace

Status check_output_folder(const std::string& folder, bool overwrite) {
  std::error_code ignored;
  if (folder.empty()) {
    return invalid("the output folder has no name");
  }
  if (!fs::exists(folder, ignored)) {
    return {};
  }
  if (!fs::is_directory(folder, ignored)) {
    return invalid(folder + ": is a file; the output must be a folder");
  }
  if (!overwrite && !fs::is_empty(folder, ignored)) {
    return invalid(folder +
                   ": the output folder is not empty; name another one, or allow it with "
                   "--overwrite-output-dir");
  }
  return {};
}

Result<SaveReport> save_model(const ModelFolder& model,
                              const SaveOptions& options,
                              const ParameterSource& source) {
  return ModelSaver(model, options, source).save();
}

Result<StorageType> save_type_from_string(std::string_view name) {
  for (const StorageType type : {StorageType::f32, StorageType::bf16, StorageType::f16}) {
    if (name == torch_name(type) || name == short_torch_name(type)) {
      return type;
    }
  }
  return invalid("save dtype " + quote(name) + " is not one of float32, bfloat16, float16");
}

}  // namespace parbuckle
