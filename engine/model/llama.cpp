#include "engine/model/llama.h"

#include <string>

#include "engine/model/graph_builder.h"

namespace parbuckle {
namespace {

void embedding(const ModelConfig& config, GraphBuilder& b) {
  const BatchValues& in = b.inputs();
  b.begin_unit("embedding", "embedding", UnitKind::embedding);
  b.op(OpKind::rope_table,
       {{in.positions}, {in.inverse_frequencies}, {in.rotary}},
       {.scale = 1, .head_dim = static_cast<std::int32_t>(config.head_dim)});
  b.op(OpKind::embedding_forward,
       {{in.tokens}, {b.parameter("model.embed_tokens.weight")}, {b.output()}});
  b.end_unit();
}

void attention(const ModelConfig& config, std::int64_t layer, GraphBuilder& b) {
  const auto heads = static_cast<std::int32_t>(config.heads);
  const auto kv_heads = static_cast<std::int32_t>(config.kv_heads);
  const auto head_dim = static_cast<std::int32_t>(config.head_dim);
  b.begin_unit("layer" + std::to_string(layer) + ".attention", "attention", UnitKind::layer);
  const ValueId x = b.rms_norm(b.input(), "input_layernorm");
  ValueId q = b.linear(x, "self_attn.q_proj", config.heads * config.head_dim, config.qkv_bias);
  ValueId k = b.linear(x, "self_attn.k_proj", config.kv_heads * config.head_dim, config.qkv_bias);
  const ValueId v =
      b.linear(x, "self_attn.v_proj", config.kv_heads * config.head_dim, config.qkv_bias);
  if (config.qk_norm) {
    q = b.rms_norm(q, "self_attn.q_norm", heads);
    k = b.rms_norm(k, "self_attn.k_norm", kv_heads);
  }
  const ValueId rotary = b.inputs().rotary;
  b.op(OpKind::rope_forward, {{q}, {rotary}}, {.heads = heads, .head_dim = head_dim});
  b.op(OpKind::rope_forward, {{k}, {rotary}}, {.heads = kv_heads, .head_dim = head_dim});
  const ValueId attended = b.attention(q, k, v, layer);
  b.add_to_residual(b.linear(attended, "self_attn.o_proj", config.hidden_size, config.output_bias));
  b.end_unit();
}

void mlp(const ModelConfig& config, std::int64_t layer, GraphBuilder& b) {
  b.begin_unit("layer" + std::to_string(layer) + ".mlp", "mlp", UnitKind::layer);
  const ValueId x = b.rms_norm(b.input(), "post_attention_layernorm");
  const ValueId gate = b.linear(x, "mlp.gate_proj", config.intermediate_size, config.mlp_bias);
  const ValueId up = b.linear(x, "mlp.up_proj", config.intermediate_size, config.mlp_bias);
  const ValueId gated = b.inner("mlp.gated", config.intermediate_size);
  b.op(OpKind::gated_forward, {{gate}, {up}, {gated}}, {.activation = config.activation});
  b.add_to_residual(b.linear(gated, "mlp.down_proj", config.hidden_size, config.mlp_bias));
  b.end_unit();
}

}  // namespace

Graph llama_graph(const ModelConfig& config) {
  GraphBuilder b(config);
  embedding(config, b);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    b.set_parameter_prefix("model.layers." + std::to_string(layer) + ".");
    attention(config, layer, b);
    mlp(config, layer, b);
  }
  b.set_parameter_prefix("");
  b.begin_unit("head", "head", UnitKind::head);
  b.head(b.rms_norm(b.input(), "model.norm"),
         config.tied ? "model.embed_tokens.weight" : "lm_head.weight");
  b.end_unit();
  return b.take();
}

}  // namespace parbuckle
