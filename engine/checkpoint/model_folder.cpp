#include "engine/checkpoint/model_folder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "parbuckle/units.h"

#include "engine/base/check.h"
#include "engine/checkpoint/quote.h"
#include "engine/checkpoint/strict_json.h"
#include "engine/checkpoint/tensor_names.h"

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t longest_text = 64 * mib;
constexpr std::int64_t compared_elements = 64 * kib;
constexpr std::array<std::string_view, 11> side_file_names = {"tokenizer.json",
                                                              "tokenizer_config.json",
                                                              "special_tokens_map.json",
                                                              "added_tokens.json",
                                                              "vocab.json",
                                                              "merges.txt",
                                                              "tokenizer.model",
                                                              "vocab.txt",
                                                              "chat_template.jinja",
                                                              "chat_template.json",
                                                              "generation_config.json"};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Result<std::string> text_of(const fs::path& path) {
  PARBUCKLE_ASSIGN(const InputFile file, InputFile::open(path.string()));
  return file.read_text(longest_text);
}

std::vector<std::string> gguf_files_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".gguf") {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::int64_t> shape_of(const Parameter& parameter) {
  return parameter.vector ? std::vector{parameter.rows}
                          : std::vector{parameter.rows, parameter.columns};
}

}  // namespace

Result<ModelFolder> ModelFolder::open(const std::string& path) {
  ModelFolder model;
  PARBUCKLE_TRY(model.read_config_and_weights(path));
  PARBUCKLE_TRY(model.read_generation());
  model.parameters_ = parbuckle::parameters(model.config());
  model.notes_ = model.config_.notes;
  model.notes_.insert(
      model.notes_.end(), model.weights_.notes().begin(), model.weights_.notes().end());
  PARBUCKLE_TRY(model.match());
  return model;
}

Status ModelFolder::read_config_and_weights(const std::string& path) {
  std::error_code ignored;
  if (!is_there(path)) {
    return Status(Code::not_found, path + ": no such file or folder");
  }
  const bool is_folder = fs::is_directory(path, ignored);
  fs::path gguf = path;
  folder_ = is_folder ? path : fs::path(path).parent_path().string();
  folder_ = folder_.empty() ? "." : folder_;
  config_path_ = (fs::path(folder_) / "config.json").string();
  if (is_folder && !is_there(config_path_)) {
    const std::vector<std::string> files = gguf_files_in(path);
    if (files.size() != 1) {
      return Status(Code::not_found,
                    path + ": holds no config.json and " +
                        (files.empty() ? "no .gguf file"
                                       : "several .gguf files, name one: " + first_few(files)));
    }
    gguf = fs::path(path) / files.front();
  }
  if (gguf.extension() == ".gguf") {
    PARBUCKLE_ASSIGN(weights_, WeightFiles::open_gguf(gguf.string()));
    PARBUCKLE_ASSIGN(config_.model, config_from_gguf(*weights_.gguf()));
    config_path_ = gguf.string();
    return {};
  }
  if (!is_folder && fs::path(path).extension() != ".safetensors") {
    return invalid(path + ": is no model; a folder, a .gguf or a .safetensors file is expected");
  }
  PARBUCKLE_ASSIGN(config_text_, text_of(config_path_));
  PARBUCKLE_ASSIGN(config_, parse_config(config_text_, config_path_));
  PARBUCKLE_ASSIGN(
      weights_, is_folder ? WeightFiles::open_folder(path) : WeightFiles::open_safetensors(path));
  return {};
}

Status ModelFolder::read_generation() {
  const fs::path path = fs::path(folder_) / "generation_config.json";
  if (is_gguf() || !is_there(path)) {
    return {};
  }
  PARBUCKLE_ASSIGN(const std::string text, text_of(path));
  PARBUCKLE_ASSIGN(generation_, parse_generation_config(text, path.string()));
  return {};
}

Status ModelFolder::match() {
  std::vector<bool> used(weights_.tensors().size());
  std::vector<std::string> missing;
  for (const Parameter& parameter : parameters_) {
    const std::vector<std::string> names =
        is_gguf() ? std::vector{gguf_name(parameter.name)} : folder_names(parameter.name);
    const StoredTensor* tensor = nullptr;
    for (const std::string& name : names) {
      tensor = tensor == nullptr ? weights_.find(name) : tensor;
    }
    if (tensor == nullptr) {
      missing.push_back(names.front());
      continue;
    }
    PARBUCKLE_TRY(check_tensor(parameter, *tensor));
    const auto position = static_cast<std::size_t>(tensor - weights_.tensors().data());
    used[position] = true;
    const bool interleaved = is_gguf() && (parameter.name.find(".q_proj.") != std::string::npos ||
                                           parameter.name.find(".k_proj.") != std::string::npos);
    saved_.push_back({is_gguf() ? parameter.name : tensor->info.name, sources_.size()});
    sources_.push_back({position, interleaved ? config().head_dim : 0});
  }
  if (!missing.empty()) {
    return invalid(config_path_ + ": asks for " + std::to_string(missing.size()) +
                   " tensors that the weights do not hold: " + first_few(missing));
  }
  return check_unused(used);
}

Status ModelFolder::check_tensor(const Parameter& parameter, const StoredTensor& tensor) const {
  const std::string who = weights_.file_of(tensor) + ": tensor " + quote(tensor.info.name);
  const std::vector<std::int64_t> wanted = shape_of(parameter);
  if (tensor.info.shape != wanted) {
    return invalid(who + " is " + shape_text(tensor.info.shape) + "; " + config_path_ +
                   " asks for " + shape_text(wanted));
  }
  if (!is_readable(tensor.info.type)) {
    return unsupported(who + " is stored as " + std::string(to_string(tensor.info.type)) +
                       ", which is not read; allowed are F32, F16, BF16" +
                       (is_gguf() ? ", Q8_0, Q4_0, Q4_1, Q5_0, Q5_1" : ""));
  }
  return {};
}

Status ModelFolder::check_unused(const std::vector<bool>& used) {
  std::vector<std::string> unexpected;
  std::size_t file = 0;
  std::size_t ignored = 0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const StoredTensor& tensor = weights_.tensors()[i];
    if (used[i]) {
      continue;
    }
    if (!is_gguf() && is_ignored_buffer(tensor.info.name)) {
      ++ignored;
      continue;
    }
    if (!is_gguf() && config().tied && tensor.info.name == "lm_head.weight") {
      PARBUCKLE_TRY(check_tied_head(tensor));
      continue;
    }
    if (unexpected.empty() || names_quantised_weights(tensor.info.name)) {
      file = tensor.file;
      unexpected.insert(unexpected.begin(), tensor.info.name);
    } else {
      unexpected.push_back(tensor.info.name);
    }
  }
  if (ignored > 0) {
    notes_.push_back(std::to_string(ignored) + " saved mask or frequency buffers are ignored");
  }
  if (unexpected.empty()) {
    return {};
  }
  const std::string what =
      weights_.files()[file].name() + ": " + std::to_string(unexpected.size()) +
      " tensors are not used by the model of " + config_path_ + ": " + first_few(unexpected);
  return names_quantised_weights(unexpected.front())
             ? unsupported(what + " (quantised weights are not read from safetensors)")
             : invalid(what);
}

/// A tied model whose files hold the head as well: it must equal the embedding.
Status ModelFolder::check_tied_head(const StoredTensor& head) {
  Parameter wanted = parameters_.front();
  PARBUCKLE_TRY(check_tensor(wanted, head));
  std::vector<float> a(static_cast<std::size_t>(compared_elements));
  std::vector<float> b(a.size());
  for (std::int64_t at = 0; at < wanted.elements(); at += compared_elements) {
    const std::int64_t count = std::min(compared_elements, wanted.elements() - at);
    PARBUCKLE_TRY(weights_.read(weights_.tensors()[sources_.front().tensor], at, count, a.data()));
    PARBUCKLE_TRY(weights_.read(head, at, count, b.data()));
    if (std::memcmp(a.data(), b.data(), static_cast<std::size_t>(count) * sizeof(float)) != 0) {
      return invalid(weights_.file_of(head) + ": 'lm_head.weight' differs from " +
                     quote(saved_.front().name) + ", but " + config_path_ +
                     " says 'tie_word_embeddings' true; set it to false, or remove "
                     "'lm_head.weight' from the weights");
    }
  }
  notes_.push_back("'lm_head.weight' equals the embedding and is tied to it");
  saved_.push_back({head.info.name, 0});
  return {};
}

std::optional<std::size_t> ModelFolder::find(std::string_view parameter) const {
  const auto at = std::find_if(parameters_.begin(), parameters_.end(), [&](const Parameter& entry) {
    return entry.name == parameter;
  });
  return at == parameters_.end()
             ? std::nullopt
             : std::optional(static_cast<std::size_t>(at - parameters_.begin()));
}

Status ModelFolder::read(std::size_t parameter,
                         std::int64_t first,
                         std::int64_t count,
                         float* out) const {
  const Source& source = sources_[parameter];
  if (source.head_dim == 0) {
    return weights_.read(weights_.tensors()[source.tensor], first, count, out);
  }
  const std::int64_t columns = parameters_[parameter].columns;
  PARBUCKLE_CHECK(first % columns == 0 && count % columns == 0,
                  "q and k projections of a GGUF are read by whole rows");
  return read_interleaved(source, first / columns, count / columns, out);
}

/// GGUF keeps the two rotary halves of a head interleaved: row 2i + j of a stored head is row j * half + i of ours.
/// Stored row pairs are read in contiguous runs and dealt out to the two halves.
Status ModelFolder::read_interleaved(const Source& source,
                                     std::int64_t first_row,
                                     std::int64_t rows,
                                     float* out) const {
  const StoredTensor& tensor = weights_.tensors()[source.tensor];
  const std::int64_t columns = tensor.info.shape.size() > 1 ? tensor.info.shape[1] : 1;
  const std::int64_t half = source.head_dim / 2;
  const std::int64_t run = std::clamp<std::int64_t>(128 * kib / columns, 1, half);  // row pairs
  std::vector<float> stored(static_cast<std::size_t>(2 * run * columns));
  const std::int64_t end_row = first_row + rows;
  for (std::int64_t head = first_row / source.head_dim * source.head_dim; head < end_row;
       head += source.head_dim) {
    for (std::int64_t pair = 0; pair < half; pair += run) {
      const std::int64_t pairs = std::min(run, half - pair);
      PARBUCKLE_TRY(
          weights_.read(tensor, (head + 2 * pair) * columns, 2 * pairs * columns, stored.data()));
      for (std::int64_t i = 0; i < 2 * pairs; ++i) {
        const std::int64_t row = head + (i % 2) * half + pair + i / 2;
        if (row >= first_row && row < end_row) {
          std::copy_n(stored.data() + i * columns, columns, out + (row - first_row) * columns);
        }
      }
    }
  }
  return {};
}

StorageType ModelFolder::storage_type() const {
  std::map<StorageType, std::int64_t> bytes;
  for (const Source& source : sources_) {
    const TensorInfo& info = weights_.tensors()[source.tensor].info;
    bytes[info.type] += info.end - info.begin;
  }
  return std::max_element(bytes.begin(),
                          bytes.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

std::vector<std::int32_t> ModelFolder::eos_ids() const {
  std::vector<std::int32_t> ids = config_.eos_ids;
  if (ids.empty() && config().eos_id >= 0) {
    ids.push_back(config().eos_id);
  }
  for (const std::int32_t id : generation_.eos_ids) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::string ModelFolder::tokenizer_json_path() const {
  const fs::path path = fs::path(folder_) / "tokenizer.json";
  return !is_gguf() && is_there(path) ? path.string() : "";
}

std::vector<std::string> ModelFolder::side_files() const {
  std::vector<std::string> names;
  for (const std::string_view name : side_file_names) {
    if (!is_gguf() && is_there(fs::path(folder_) / name)) {
      names.emplace_back(name);
    }
  }
  return names;
}

Result<std::string> ModelFolder::chat_template() const {
  if (is_gguf()) {
    const auto* const text = gguf()->find<std::string>("tokenizer.chat_template");
    return text == nullptr ? std::string() : *text;
  }
  const fs::path own = fs::path(folder_) / "chat_template.jinja";
  if (is_there(own)) {
    return text_of(own);
  }
  const fs::path path = fs::path(folder_) / "tokenizer_config.json";
  if (!is_there(path)) {
    return std::string();
  }
  PARBUCKLE_ASSIGN(const std::string text, text_of(path));
  PARBUCKLE_ASSIGN(const Json config, parse_json_object(text, path.string()));
  const auto at = config.find("chat_template");
  if (at == config.end() || at->is_null()) {
    return std::string();
  }
  if (at->is_string()) {
    return at->get<std::string>();
  }
  // Several named templates: the one called "default" is the chat template.
  for (const Json& entry : at->is_array() ? *at : Json::array()) {
    if (entry.is_object() && entry.value("name", Json()) == "default" &&
        entry.value("template", Json()).is_string()) {
      return entry["template"].get<std::string>();
    }
  }
  return invalid(path.string() + ": 'chat_template' is " + shown(*at) +
                 "; it must be a string, or a list with one named 'default'");
}

}  // namespace parbuckle
