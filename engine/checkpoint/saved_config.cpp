#include "engine/checkpoint/saved_config.h"

#include <array>
#include <charconv>

#include "engine/base/check.h"
#include "engine/checkpoint/model_writer.h"
#include "engine/checkpoint/strict_json.h"

namespace parbuckle {
namespace {

/// The shortest decimal that reads back as this float: 1e-05, not 9.999999747378752e-06.
double decimal(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double out = 0;
  std::from_chars(text.data(), end, out);
  return out;
}

Json id_or_null(std::int32_t id) {
  return id < 0 ? Json(nullptr) : Json(id);
}

}  // namespace

std::string_view torch_name(StorageType type) {
  PARBUCKLE_CHECK(type == StorageType::f32 || type == StorageType::bf16 || type == StorageType::f16,
                  "weights are saved as F32, BF16 or F16");
  return type == StorageType::f32 ? "float32" : type == StorageType::bf16 ? "bfloat16" : "float16";
}

std::string_view short_torch_name(StorageType type) {
  return type == StorageType::f32 ? "f32" : type == StorageType::bf16 ? "bf16" : "f16";
}

std::string config_with_type(const std::string& text, StorageType type) {
  Json config = Json::parse(text);
  const auto stated = [&config](const char* key) {
    return config.contains(key) && config[key].is_string();
  };
  const char* const key = stated("dtype") && !stated("torch_dtype") ? "dtype" : "torch_dtype";
  const std::string found = stated(key) ? config[key].get<std::string>() : "float32";
  if (found == torch_name(type)) {
    return text;
  }
  for (const char* const name : {"dtype", "torch_dtype"}) {
    if (name == std::string_view(key) || stated(name)) {
      config[name] = std::string(torch_name(type));
    }
  }
  return config.dump(2) + "\n";
}

std::string config_json_text(const ModelConfig& config, StorageType type) {
  PARBUCKLE_CHECK(config.model_type == "llama", "a GGUF holds the llama architecture");
  Json rope = nullptr;
  if (config.rope.type == RopeType::linear) {
    rope = {{"factor", config.rope.factor}, {"rope_type", "linear"}};
  }
  const Json json = {
      {"architectures", Json::array({"LlamaForCausalLM"})},
      {"attention_bias", config.qkv_bias},
      {"attention_dropout", 0.0},
      {"bos_token_id", id_or_null(config.bos_id)},
      {"eos_token_id", id_or_null(config.eos_id)},
      {"head_dim", config.head_dim},
      {"hidden_act", "silu"},
      {"hidden_size", config.hidden_size},
      {"initializer_range", 0.02},
      {"intermediate_size", config.intermediate_size},
      {"max_position_embeddings", config.max_positions},
      {"mlp_bias", config.mlp_bias},
      {"model_type", "llama"},
      {"num_attention_heads", config.heads},
      {"num_hidden_layers", config.layers},
      {"num_key_value_heads", config.kv_heads},
      {"rms_norm_eps", decimal(config.norm_eps)},
      {"rope_scaling", rope},
      {"rope_theta", config.rope.theta},
      {"tie_word_embeddings", config.tied},
      {"torch_dtype", std::string(torch_name(type))},
      {"use_cache", true},
      {"vocab_size", config.vocab_size},
  };
  return json.dump(2) + "\n";
}

std::string generation_config_text(const ModelConfig& config) {
  const Json json = {{"_from_model_config", true},
                     {"bos_token_id", id_or_null(config.bos_id)},
                     {"eos_token_id", id_or_null(config.eos_id)}};
  return json.dump(2) + "\n";
}

}  // namespace parbuckle
