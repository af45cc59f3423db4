#include "engine/graph/signature.h"

#include <sstream>

#include "engine/base/op.h"

namespace parbuckle {
namespace {

const char* word(RopeType type) {
  switch (type) {
    case RopeType::none:
      return "default";
    case RopeType::linear:
      return "linear";
    case RopeType::llama3:
      return "llama3";
  }
  return "";
}

}  // namespace

std::string signature_of(const ModelConfig& config, const LowerOptions& options) {
  std::ostringstream text;
  text.precision(17);
  const auto line = [&text](const char* key, const auto&... values) {
    text << key;
    ((text << ' ' << values), ...);
    text << '\n';
  };
  line("model", config.model_type);
  line("sizes",
       config.vocab_size,
       config.hidden_size,
       config.intermediate_size,
       config.layers,
       config.heads,
       config.kv_heads,
       config.head_dim,
       config.max_positions);
  line("activation", to_string(config.activation));
  line("norm_eps", config.norm_eps);
  line("rope",
       word(config.rope.type),
       config.rope.theta,
       config.rope.factor,
       config.rope.low_freq_factor,
       config.rope.high_freq_factor,
       config.rope.original_positions);
  line("tied", config.tied);
  line("biases", config.qkv_bias, config.output_bias, config.mlp_bias);
  line("qk_norm", config.qk_norm);
  line("attention_scale", config.attention_scale);
  text << "windows";
  for (const std::int32_t window : config.windows) {
    text << ' ' << window;
  }
  text << '\n';
  line("phase", to_string(options.phase));
  line("micro_batches", options.micro_batches);
  for (const ShapeKey& key : options.shapes) {
    line("shape", key.rows, key.cache_rows);
  }
  line("compute", "f32");
  line("block_elements", options.block_elements);
  line("square_sum_chunk", square_sum_chunk);
  line("head", config.vocab_size <= options.one_pass_vocabulary ? "one_pass" : "two_pass");
  return text.str();
}

}  // namespace parbuckle
