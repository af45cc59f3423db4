#include "engine/model/gpt2.h"

#include <string>

#include "engine/model/graph_builder.h"

namespace parbuckle {
namespace {

void embedding(GraphBuilder& b) {
  const BatchValues& in = b.inputs();
  b.begin_unit("embedding", "embedding", UnitKind::embedding);
  b.op(OpKind::embedding_forward,
       {{in.tokens}, {b.parameter("transformer.wte.weight")}, {b.output()}});
  b.op(OpKind::position_forward,
       {{in.positions}, {b.parameter("transformer.wpe.weight")}, {b.output()}});
  b.end_unit();
}

void attention(const ModelConfig& config, std::int64_t layer, GraphBuilder& b) {
  const std::int64_t h = config.hidden_size;
  b.begin_unit("layer" + std::to_string(layer) + ".attention", "attention", UnitKind::layer);
  const ValueId x = b.layer_norm(b.input(), "ln_1");
  const ValueId fused = b.linear(x, "attn.c_attn", 3 * h, true);
  const ValueId q = b.inner("q", h);
  const ValueId k = b.inner("k", h);
  const ValueId v = b.inner("v", h);
  b.op(OpKind::split3, {{fused}, {q}, {k}, {v}});
  const ValueId attended = b.attention(q, k, v, layer);
  b.add_to_residual(b.linear(attended, "attn.c_proj", h, true));
  b.end_unit();
}

void mlp(const ModelConfig& config, std::int64_t layer, GraphBuilder& b) {
  b.begin_unit("layer" + std::to_string(layer) + ".mlp", "mlp", UnitKind::layer);
  const ValueId x = b.layer_norm(b.input(), "ln_2");
  const ValueId wide = b.linear(x, "mlp.c_fc", config.intermediate_size, true);
  const ValueId activated = b.inner("mlp.activated", config.intermediate_size);
  b.op(OpKind::activation_forward, {{wide}, {activated}}, {.activation = config.activation});
  b.add_to_residual(b.linear(activated, "mlp.c_proj", config.hidden_size, true));
  b.end_unit();
}

}  // namespace

Graph gpt2_graph(const ModelConfig& config) {
  GraphBuilder b(config);
  embedding(b);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    b.set_parameter_prefix("transformer.h." + std::to_string(layer) + ".");
    attention(config, layer, b);
    mlp(config, layer, b);
  }
  b.set_parameter_prefix("");
  b.begin_unit("head", "head", UnitKind::head);
  b.head(b.layer_norm(b.input(), "transformer.ln_f"),
         config.tied ? "transformer.wte.weight" : "lm_head.weight");
  b.end_unit();
  return b.take();
}

}  // namespace parbuckle
