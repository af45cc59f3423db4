// What a model file or folder holds, for people and for programs: tensors, sizes, configuration, and whether we train it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/checkpoint/tensor_info.h"
#include "engine/model/config.h"

namespace parbuckle {

struct Inspection {
  std::string path;
  std::string
      kind;  // "Hugging Face folder", "safetensors file", "GGUF version 3, architecture llama"
  std::vector<std::string> files;   // of the weights
  std::vector<TensorInfo> tensors;  // by file and position
  std::int64_t parameters =
      0;  // of the model where it is supported, else all elements of all tensors
  std::int64_t weight_bytes = 0;  // as stored
  std::optional<ModelConfig> config;
  std::string unsupported;  // why this model cannot be used; empty: it can
  std::vector<std::string> notes;
};

/// Malformed files are errors; a well-formed model that we cannot compute is described, with the reason.
Result<Inspection> inspect_model(const std::string& path);

/// The same as text: a summary, then one line per tensor with type, shape and bytes.
Result<std::string> inspect(const std::string& path);

std::string inspection_text(const Inspection& inspection);

}  // namespace parbuckle
