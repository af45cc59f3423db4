// Writing a .safetensors file from streams of floats, tensor by tensor, in constant memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/checkpoint/output_file.h"
#include "engine/checkpoint/tensor_info.h"

namespace parbuckle {

/// A tensor to be written; its place in the file follows from its order.
struct TensorSpec {
  std::string name;
  StorageType type = StorageType::f32;  // F32, BF16 or F16
  std::vector<std::int64_t> shape;
  [[nodiscard]] std::int64_t elements() const { return element_count(shape).value_or(0); }
  [[nodiscard]] std::int64_t bytes() const { return elements() * block_bytes(type); }
};

class SafetensorsWriter {
 public:
  /// Begins `path` under a temporary name beside it. The header is padded to a multiple of 8 bytes.
  static Result<SafetensorsWriter> create(const std::string& path,
                                          std::vector<TensorSpec> tensors,
                                          const std::map<std::string, std::string>& metadata = {
                                              {"format", "pt"}});

  /// The next values, in the order of the tensors; a call may not cross the end of a tensor. Rounded to nearest even.
  [[nodiscard]] Status write(std::span<const float> values);

  /// Makes the file durable and gives it its name. An error when values are missing.
  [[nodiscard]] Status finish();

 private:
  SafetensorsWriter(OutputFile file, std::string path, std::vector<TensorSpec> tensors)
      : file_(std::move(file)), path_(std::move(path)), tensors_(std::move(tensors)) {}

  OutputFile file_;
  std::string path_;
  std::vector<TensorSpec> tensors_;
  std::size_t tensor_ = 0;      // the one being written
  std::int64_t elements_ = 0;   // of it, written so far
  std::vector<std::byte> raw_;  // one chunk, converted
};

/// Cuts the list into files of at most `max_bytes` of data (a single larger tensor has its own); 0: one file.
std::vector<std::vector<TensorSpec>> shards_of(const std::vector<TensorSpec>& tensors,
                                               std::int64_t max_bytes);

/// "model.safetensors" for one file, else "model-00002-of-00003.safetensors".
std::string shard_name(std::size_t shard, std::size_t shards);

/// Text of model.safetensors.index.json.
std::string index_text(const std::vector<std::vector<TensorSpec>>& shards);

}  // namespace parbuckle
