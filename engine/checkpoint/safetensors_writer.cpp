#include "engine/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/checkpoint/quote.h"
#include "engine/checkpoint/strict_json.h"

namespace parbuckle {
namespace {

std::string header_text(const std::vector<TensorSpec>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  std::int64_t at = 0;
  for (const TensorSpec& tensor : tensors) {
    header[tensor.name] = Json{{"dtype", std::string(to_string(tensor.type))},
                               {"shape", tensor.shape},
                               {"data_offsets", {at, at + tensor.bytes()}}};
    at += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::string& path,
    std::vector<TensorSpec> tensors,
    const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(tensors, metadata);
  std::int64_t total = static_cast<std::int64_t>(sizeof(std::uint64_t) + header.size());
  for (const TensorSpec& tensor : tensors) {
    total += tensor.bytes();
  }
  PARBUCKLE_ASSIGN(OutputFile file, OutputFile::create(path + ".partial", total));
  const std::uint64_t length = header.size();
  PARBUCKLE_TRY(file.write(std::as_bytes(std::span(&length, 1))));
  PARBUCKLE_TRY(file.write_text(header));
  return SafetensorsWriter(std::move(file), path, std::move(tensors));
}

Status SafetensorsWriter::write(std::span<const float> values) {
  while (tensor_ < tensors_.size() && tensors_[tensor_].elements() == 0) {
    ++tensor_;
  }
  if (values.empty()) {
    return {};
  }
  PARBUCKLE_CHECK(tensor_ < tensors_.size(), "no more values than the header announces");
  const TensorSpec& tensor = tensors_[tensor_];
  const auto count = static_cast<std::int64_t>(values.size());
  PARBUCKLE_CHECK(count <= tensor.elements() - elements_, "a chunk ends with its tensor");
  if (tensor.type == StorageType::f32) {
    PARBUCKLE_TRY(file_.write(std::as_bytes(values)));
  } else {
    raw_.resize(static_cast<std::size_t>(count * block_bytes(tensor.type)));
    from_floats(tensor.type, values.data(), count, raw_.data());
    PARBUCKLE_TRY(file_.write(raw_));
  }
  elements_ += count;
  if (elements_ == tensor.elements()) {
    ++tensor_;
    elements_ = 0;
  }
  return {};
}

Status SafetensorsWriter::finish() {
  PARBUCKLE_TRY(write({}));  // steps over trailing tensors without elements
  if (tensor_ != tensors_.size()) {
    return internal_error(path_ + ": tensor " + quote(tensors_[tensor_].name) +
                          " was not written completely");
  }
  PARBUCKLE_TRY(file_.finish());
  return rename_durably(file_.path(), path_);
}

std::vector<std::vector<TensorSpec>> shards_of(const std::vector<TensorSpec>& tensors,
                                               std::int64_t max_bytes) {
  std::vector<std::vector<TensorSpec>> shards(1);
  std::int64_t bytes = 0;
  for (const TensorSpec& tensor : tensors) {
    if (max_bytes > 0 && !shards.back().empty() && bytes + tensor.bytes() > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(tensor);
    bytes += tensor.bytes();
  }
  return shards;
}

std::string shard_name(std::size_t shard, std::size_t shards) {
  if (shards == 1) {
    return "model.safetensors";
  }
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", shard + 1, shards);
  return name.data();
}

std::string index_text(const std::vector<std::vector<TensorSpec>>& shards) {
  std::int64_t total = 0;
  Json map = Json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const TensorSpec& tensor : shards[i]) {
      map[tensor.name] = shard_name(i, shards.size());
      total += tensor.bytes();
    }
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  return index.dump(2) + "\n";
}

}  // namespace parbuckle
