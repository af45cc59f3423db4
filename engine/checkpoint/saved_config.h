// The JSON texts that a saved model folder needs.
#pragma once

#include <string>
#include <string_view>

#include "engine/checkpoint/storage_type.h"
#include "engine/model/config.h"

namespace parbuckle {

/// "float32", "bfloat16", "float16". REQUIRES: one of these types.
std::string_view torch_name(StorageType type);
/// "f32", "bf16", "f16".
std::string_view short_torch_name(StorageType type);

/// The text of a config.json with its dtype set to `type`: unchanged, byte for byte, where it says so already (a config
/// without dtype means float32). REQUIRES: a config.json that was read without a fault.
std::string config_with_type(const std::string& text, StorageType type);

/// generation_config.json with the ids that the model knows.
std::string generation_config_text(const ModelConfig& config);

}  // namespace parbuckle
