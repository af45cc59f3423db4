// Saving a trained model as a folder that transformers loads: the names and side files of the model that was read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/checkpoint/model_folder.h"

namespace parbuckle {

/// Gives elements [first, first + count) of a parameter, row-major, in `out`. Asked in ascending order, by whole rows
/// where a row has at most 256 Ki elements; a parameter that is saved under two names is asked for twice.
using ParameterSource = std::function<Status(
    const Parameter& parameter, std::int64_t first, std::int64_t count, float* out)>;

struct TextFile {
  std::string name;
  std::string text;
};

struct SaveOptions {
  std::string folder;
  StorageType type = StorageType::f32;  // --save-dtype: F32, BF16 or F16
  std::int64_t max_shard_bytes = 0;     // 0: one model.safetensors
  bool overwrite = false;  // into a folder that holds files; others than the model's own are kept
  std::vector<TextFile>
      texts;  // written besides; win over files of the same name that would be copied
};

struct SaveReport {
  std::vector<std::string> files;  // names in the folder
  std::int64_t weight_bytes = 0;
  float largest = 0;  // largest |weight| that was finite; what does not fit the type is an error
};

/// Whether a save may go to this folder: absent, empty, or `overwrite`. For the start of a run.
[[nodiscard]] Status check_output_folder(const std::string& folder, bool overwrite);

/// Writes into a temporary folder beside the target, makes it durable, then moves it into place: a crash leaves the old
/// state or the new one. config.json is the one that was read, byte for byte, unless the saved type differs from the one
/// it states; for a GGUF it is generated. Disk space is checked before anything is written.
[[nodiscard]] Result<SaveReport> save_model(const ModelFolder& model,
                                            const SaveOptions& options,
                                            const ParameterSource& source);

/// "float32", "bfloat16" or "float16" (or f32, bf16, f16).
Result<StorageType> save_type_from_string(std::string_view name);

/// config.json for a model without one, with every key that transformers needs.
std::string config_json_text(const ModelConfig& config, StorageType type);

}  // namespace parbuckle
