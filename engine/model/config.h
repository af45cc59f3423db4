// What a model is, once its config.json or GGUF metadata has been understood: every default filled in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/op.h"

namespace parbuckle {

/// Two shapes of graph. llama: rotary positions, RMS norm, gated MLP (llama, mistral, qwen2, qwen3).
/// gpt2: learned positions, layer norm, fused QKV, plain MLP, weights stored (in, out).
enum class ModelShape { llama, gpt2 };

enum class RopeType { none, linear, llama3 };

struct RopeConfig {
  RopeType type = RopeType::none;
  double theta = 10000;
  double factor = 1;                    // linear, llama3
  double low_freq_factor = 1;           // llama3
  double high_freq_factor = 4;          // llama3
  std::int64_t original_positions = 0;  // llama3
  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

struct ModelConfig {
  std::string model_type;  // "llama", "mistral", "qwen2", "qwen3", "gpt2"
  ModelShape shape = ModelShape::llama;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 0;  // gpt2: rows of the position table
  Activation activation = Activation::silu;
  float norm_eps = 1e-5F;
  RopeConfig rope;
  bool tied = false;  // head = embedding
  bool qkv_bias = false;
  bool output_bias = false;  // attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;               // RMS norm of each query and key head
  float attention_scale = 0;          // 1 / sqrt(head_dim) unless stated
  std::vector<std::int32_t> windows;  // per layer; 0: none
  std::int32_t bos_id = -1;
  std::int32_t eos_id = -1;
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Inverse frequencies of the rotary embedding, head_dim / 2 of them, scaling applied (the published formulas of
/// transformers' modeling_rope_utils: default, linear, llama3), computed in double.
std::vector<float> inverse_frequencies(const ModelConfig& config);

}  // namespace parbuckle
