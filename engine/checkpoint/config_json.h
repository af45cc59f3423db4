// config.json of a model folder -> ModelConfig, in the spelling of transformers 4 and of 5. What changes the mathematics
// and is not implemented is refused by key and value; what cannot change it is ignored, and noted where a user may wonder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

#include "engine/checkpoint/gguf.h"
#include "engine/model/config.h"

namespace parbuckle {

struct ConfigFile {
  ModelConfig model;
  std::string dtype;                  // "bfloat16"; empty: not stated
  std::vector<std::int32_t> eos_ids;  // all of them; model.eos_id is the first
  std::vector<std::string> notes;     // one line each: what was ignored
};

/// Parses the text of a config.json; `name` is the file that messages speak of.
Result<ConfigFile> parse_config(std::string_view text, const std::string& name);

/// `path`: a config.json, or a folder that holds one.
Result<ConfigFile> read_config_file(const std::string& path);

/// The model alone.
Result<ModelConfig> read_config(const std::string& path);

/// The model that a GGUF file of architecture llama holds; other architectures are refused by name.
Result<ModelConfig> config_from_gguf(const Gguf& gguf);

/// What generate starts from; absent keys are empty.
struct GenerationConfig {
  std::optional<std::int32_t> bos_id;
  std::optional<std::int32_t> pad_id;
  std::vector<std::int32_t> eos_ids;
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> top_k;
};

/// Parses the text of a generation_config.json.
Result<GenerationConfig> parse_generation_config(std::string_view text, const std::string& name);

}  // namespace parbuckle
