#include "engine/checkpoint/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "parbuckle/units.h"

#include "engine/base/check.h"
#include "engine/checkpoint/quote.h"
#include "engine/checkpoint/safetensors.h"

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t longest_index = 64 * mib;
constexpr std::int64_t piece_bytes = 512 * kib;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Relative, without "..": the name stays inside the folder.
bool stays_inside(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && path.is_relative() && name.find('\0') == std::string::npos &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

/// Tensor -> shard, as the index says it.
Result<std::map<std::string, std::string>> weight_map_of(const Json& index,
                                                         const std::string& name) {
  const auto at = index.find("weight_map");
  if (at == index.end() || !at->is_object()) {
    return invalid(name + ": 'weight_map' is missing or no object");
  }
  std::map<std::string, std::string> out;
  for (const auto& [tensor, shard] : at->items()) {
    if (!shard.is_string() || !stays_inside(shard.get<std::string>())) {
      return invalid(name + ": weight_map says that tensor " + quote(tensor) + " is in " +
                     shown(shard) +
                     "; a shard must be a file name inside the folder, without '..'");
    }
    out.emplace(tensor, shard.get<std::string>());
  }
  return out;
}

std::vector<std::string> other_weights(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".safetensors" || extension == ".bin" || extension == ".pth") {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<WeightFiles> WeightFiles::open_folder(const std::string& folder) {
  WeightFiles weights;
  const fs::path root(folder);
  const std::string index = (root / "model.safetensors.index.json").string();
  if (is_there(index)) {
    PARBUCKLE_TRY(weights.open_index(folder, index));
    return weights;
  }
  const std::string single = (root / "model.safetensors").string();
  if (is_there(single)) {
    return open_safetensors(single);
  }
  const std::vector<std::string> others = other_weights(root);
  return Status(
      Code::not_found,
      folder + ": holds neither model.safetensors nor model.safetensors.index.json" +
          (others.empty() ? "" : "; without an index these are not read: " + first_few(others)));
}

Result<WeightFiles> WeightFiles::open_safetensors(const std::string& path) {
  WeightFiles weights;
  PARBUCKLE_TRY(weights.add_safetensors(path));
  weights.sort_names();
  return weights;
}

Result<WeightFiles> WeightFiles::open_gguf(const std::string& path) {
  WeightFiles weights;
  PARBUCKLE_ASSIGN(InputFile file, InputFile::open(path));
  PARBUCKLE_ASSIGN(weights.gguf_, read_gguf(file));
  weights.files_.push_back(std::move(file));
  for (const TensorInfo& tensor : weights.gguf_->tensors) {
    weights.tensors_.push_back({tensor, 0});
  }
  weights.sort_names();
  return weights;
}

Status WeightFiles::add_safetensors(const std::string& path) {
  PARBUCKLE_ASSIGN(InputFile file, InputFile::open(path));
  PARBUCKLE_ASSIGN(Safetensors header, read_safetensors(file));
  for (TensorInfo& tensor : header.tensors) {
    tensors_.push_back({std::move(tensor), files_.size()});
  }
  files_.push_back(std::move(file));
  return {};
}

Status WeightFiles::open_index(const std::string& folder, const std::string& index_path) {
  PARBUCKLE_ASSIGN(const InputFile file, InputFile::open(index_path));
  PARBUCKLE_ASSIGN(const std::string text, file.read_text(longest_index));
  PARBUCKLE_ASSIGN(const Json index, parse_json_object(text, index_path));
  PARBUCKLE_ASSIGN(const auto map, weight_map_of(index, index_path));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map) {
    shards.insert(shard);
  }
  std::vector<std::string> missing;
  std::copy_if(shards.begin(), shards.end(), std::back_inserter(missing), [&](const auto& shard) {
    return !is_there(fs::path(folder) / shard);
  });
  if (!missing.empty()) {
    return Status(Code::not_found,
                  index_path + ": names shards that are not in the folder: " +
                      first_few(missing, missing.size()));
  }
  for (const std::string& shard : shards) {
    PARBUCKLE_TRY(add_safetensors((fs::path(folder) / shard).string()));
  }
  sort_names();
  PARBUCKLE_TRY(check_shards(map, {shards.begin(), shards.end()}, index_path));
  check_total(index, index_path);
  return {};
}

/// Both ways: every tensor of the index in its shard, every tensor of a shard in the index.
Status WeightFiles::check_shards(const std::map<std::string, std::string>& map,
                                 const std::vector<std::string>& shards,
                                 const std::string& index_path) const {
  for (const auto& [name, shard] : map) {
    if (find(name) == nullptr) {
      return invalid(index_path + ": places tensor " + quote(name) + " in " + quote(shard) +
                     ", which does not hold it");
    }
  }
  for (const StoredTensor& tensor : tensors_) {
    const auto at = map.find(tensor.info.name);
    if (at == map.end() || at->second != shards[tensor.file]) {
      return invalid(file_of(tensor) + ": holds tensor " + quote(tensor.info.name) + ", which " +
                     index_path +
                     (at == map.end() ? " does not list" : " places in " + quote(at->second)));
    }
  }
  return {};
}

void WeightFiles::check_total(const Json& index, const std::string& index_path) {
  std::int64_t bytes = 0;
  for (const StoredTensor& tensor : tensors_) {
    bytes += tensor.info.end - tensor.info.begin;
  }
  const auto metadata = index.find("metadata");
  if (metadata != index.end() && metadata->is_object() && metadata->contains("total_size") &&
      metadata->at("total_size") != bytes) {
    notes_.push_back(index_path + ": total_size is " + shown(metadata->at("total_size")) +
                     ", the tensors have " + std::to_string(bytes) + " bytes");
  }
}

void WeightFiles::sort_names() {
  by_name_.resize(tensors_.size());
  for (std::size_t i = 0; i < by_name_.size(); ++i) {
    by_name_[i] = i;
  }
  std::sort(by_name_.begin(), by_name_.end(), [this](std::size_t a, std::size_t b) {
    return tensors_[a].info.name < tensors_[b].info.name;
  });
}

const StoredTensor* WeightFiles::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name, [this](std::size_t i, std::string_view wanted) {
        return tensors_[i].info.name < wanted;
      });
  return at == by_name_.end() || tensors_[*at].info.name != name ? nullptr : &tensors_[*at];
}

Status WeightFiles::read(const StoredTensor& tensor,
                         std::int64_t first,
                         std::int64_t count,
                         float* out) const {
  const StorageType type = tensor.info.type;
  const std::int64_t total = element_count(tensor.info.shape).value_or(0);
  PARBUCKLE_CHECK(is_readable(type), "only readable types reach a reader");
  PARBUCKLE_CHECK(first >= 0 && count >= 0 && first <= total && count <= total - first,
                  "the range lies inside the tensor");
  const std::int64_t block = block_elements(type);
  const std::int64_t most = piece_bytes / block_bytes(type) * block;  // elements of a piece
  const std::int64_t end = first + count;
  std::vector<std::byte> raw;
  std::vector<float> edge;
  for (std::int64_t at = first / block * block; at < end; at += most) {
    const std::int64_t piece = std::min(most, round_up(end, block) - at);
    raw.resize(static_cast<std::size_t>(piece / block * block_bytes(type)));
    PARBUCKLE_TRY(
        files_[tensor.file].read(tensor.info.begin + at / block * block_bytes(type), raw));
    if (at >= first && at + piece <= end) {
      to_floats(type, raw.data(), piece, out + (at - first));
      continue;
    }
    // The range begins or ends inside a block.
    edge.resize(static_cast<std::size_t>(piece));
    to_floats(type, raw.data(), piece, edge.data());
    const std::int64_t from = std::max(at, first);
    const std::int64_t to = std::min(at + piece, end);
    std::copy(edge.begin() + (from - at), edge.begin() + (to - at), out + (from - first));
  }
  return {};
}

}  // namespace parbuckle
