// The files that hold a model's weights, as one table of tensors: the shards of an index, one .safetensors, or one GGUF.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

#include "engine/checkpoint/gguf.h"
#include "engine/checkpoint/input_file.h"
#include "engine/checkpoint/strict_json.h"
#include "engine/checkpoint/tensor_info.h"

namespace parbuckle {

struct StoredTensor {
  TensorInfo info;
  std::size_t file = 0;  // position in WeightFiles::files()
};

class WeightFiles {
 public:
  /// `model.safetensors.index.json` and the shards it names (only those); without an index `model.safetensors` alone.
  /// Index and shards must agree tensor by tensor; a shard must lie inside the folder.
  static Result<WeightFiles> open_folder(const std::string& folder);
  static Result<WeightFiles> open_safetensors(const std::string& path);
  static Result<WeightFiles> open_gguf(const std::string& path);

  [[nodiscard]] const std::vector<InputFile>& files() const { return files_; }
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  [[nodiscard]] const std::string& file_of(const StoredTensor& tensor) const {
    return files_[tensor.file].name();
  }
  /// Metadata of a GGUF file; null for safetensors.
  [[nodiscard]] const Gguf* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  /// Things that are odd but harmless, one line each.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  /// Converts elements [first, first + count) of a tensor to floats. At most 1 MiB of stored bytes is held at a time.
  /// REQUIRES: the type is readable; `out` has room for `count`. May be called from several threads.
  [[nodiscard]] Status read(const StoredTensor& tensor,
                            std::int64_t first,
                            std::int64_t count,
                            float* out) const;

 private:
  Status add_safetensors(const std::string& path);
  Status open_index(const std::string& folder, const std::string& index_path);
  void sort_names();
  [[nodiscard]] Status check_shards(const std::map<std::string, std::string>& map,
                                    const std::vector<std::string>& shards,
                                    const std::string& index_path) const;
  void check_total(const Json& index, const std::string& index_path);

  std::vector<InputFile> files_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::size_t> by_name_;  // positions in tensors_
  std::optional<Gguf> gguf_;
  std::vector<std::string> notes_;
};

}  // namespace parbuckle
