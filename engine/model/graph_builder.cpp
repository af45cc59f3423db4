#include "engine/model/graph_builder.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/model/parameters.h"

namespace parbuckle {
namespace {

constexpr std::int64_t statistics_per_row = 4;  // head_stats

GraphValue column(const char* name) {
  return {.name = name, .role = ValueRole::batch, .dtype = DType::i32, .per_token = true};
}

}  // namespace

GraphBuilder::GraphBuilder(const ModelConfig& config) : config_(config) {
  graph_.name = config.model_type;
  for (const Parameter& p : parameters(config)) {
    parameters_[p.name] = add({.name = p.name,
                               .role = ValueRole::parameter,
                               .rows = p.rows,
                               .columns = p.columns,
                               .vector = p.vector});
  }
  BatchValues& inputs = graph_.inputs;
  inputs.tokens = add(column("tokens"));
  inputs.positions = add(column("positions"));
  inputs.segment_begin = add(column("segment_begin"));
  inputs.targets = add(column("targets"));
  inputs.slots = add(column("slots"));
  if (config.shape == ModelShape::llama) {
    inputs.inverse_frequencies = add(
        {.name = "inverse_frequencies", .role = ValueRole::scalars, .rows = config.head_dim / 2});
    inputs.rotary = add({.name = "rotary",
                         .role = ValueRole::batch,
                         .per_token = true,
                         .columns = config.head_dim});
  }
  inputs.step = add({.name = "step",
                     .role = ValueRole::scalars,
                     .dtype = DType::u8,
                     .rows = static_cast<std::int64_t>(sizeof(StepScalars))});
  inputs.loss = add({.name = "loss", .role = ValueRole::statistic, .dtype = DType::f64, .rows = 2});
}

ValueId GraphBuilder::add(GraphValue value) {
  graph_.values.push_back(std::move(value));
  return ValueId(graph_.values.size() - 1);
}

void GraphBuilder::begin_unit(const std::string& name, const std::string& family, UnitKind kind) {
  unit_ = {.name = name, .family = family, .kind = kind};
  if (kind != UnitKind::embedding) {
    unit_.input = residual_;
  }
}

void GraphBuilder::end_unit() {
  // Storage order is the order of the model's folder, whatever order the ops name them in.
  std::sort(unit_.parameters.begin(), unit_.parameters.end());
  graph_.units.push_back(std::move(unit_));
  unit_ = {};
}

ValueId GraphBuilder::parameter(const std::string& name) {
  const auto found = parameters_.find(parameter_prefix_ + name);
  PARBUCKLE_CHECK(found != parameters_.end(), (parameter_prefix_ + name).c_str());
  unit_.parameters.push_back(found->second);
  return found->second;
}

ValueId GraphBuilder::inner(const std::string& name, std::int64_t columns) {
  return add({.name = unit_.name + "." + name, .per_token = true, .columns = columns});
}

ValueId GraphBuilder::input() const {
  PARBUCKLE_CHECK(unit_.input.valid(), "the embedding has no input");
  return unit_.input;
}

ValueId GraphBuilder::output() {
  if (!unit_.output.valid()) {
    unit_.output = add({.name = "boundary." + std::to_string(graph_.units.size() + 1),
                        .role = ValueRole::residual,
                        .per_token = true,
                        .columns = config_.hidden_size});
    residual_ = unit_.output;
  }
  return unit_.output;
}

void GraphBuilder::op(OpKind kind, std::vector<ValueUse> operands, const Attributes& attributes) {
  unit_.forward.push_back(
      {.kind = kind, .attributes = attributes, .operands = std::move(operands)});
}

ValueId GraphBuilder::linear(ValueId x, const std::string& name, std::int64_t columns, bool bias) {
  const ValueId y = inner(name, columns);
  std::vector<ValueUse> operands = {{x}, {parameter(name + ".weight")}, {y}};
  if (bias) {
    operands.push_back({parameter(name + ".bias")});
  }
  op(OpKind::linear_forward, std::move(operands), {.in_out = config_.shape == ModelShape::gpt2});
  return y;
}

ValueId GraphBuilder::rms_norm(ValueId x, const std::string& name, std::int32_t heads) {
  const ValueId y = inner(name + ".normed", columns(x));
  const ValueId rstd = inner(name + ".rstd", heads);
  op(OpKind::rms_norm_forward,
     {{x, heads}, {parameter(name + ".weight")}, {y, heads}, {rstd, heads}},
     {.eps = config_.norm_eps});
  return y;
}

ValueId GraphBuilder::layer_norm(ValueId x, const std::string& name) {
  const ValueId y = inner(name + ".normed", columns(x));
  const ValueId mean = inner(name + ".mean", 1);
  const ValueId rstd = inner(name + ".rstd", 1);
  op(OpKind::layer_norm_forward,
     {{x}, {parameter(name + ".weight")}, {parameter(name + ".bias")}, {y}, {mean}, {rstd}},
     {.eps = config_.norm_eps});
  return y;
}

ValueId GraphBuilder::attention(ValueId q, ValueId k, ValueId v, std::int64_t layer) {
  const ValueId out = inner("attended", columns(q));
  const ValueId lse = inner("lse", config_.heads);
  const auto index = static_cast<std::size_t>(layer);
  op(OpKind::attention_forward,
     {{q}, {k}, {v}, {inputs().segment_begin}, {out}, {lse}},
     {.scale = config_.attention_scale,
      .heads = static_cast<std::int32_t>(config_.heads),
      .kv_heads = static_cast<std::int32_t>(config_.kv_heads),
      .head_dim = static_cast<std::int32_t>(config_.head_dim),
      .window = index < config_.windows.size() ? config_.windows[index] : 0});
  return out;
}

void GraphBuilder::add_to_residual(ValueId branch) {
  op(OpKind::add, {{input()}, {branch}, {output()}});
}

void GraphBuilder::head(ValueId normed, const std::string& name) {
  const ValueId stats = add({.name = "head.stats",
                             .role = ValueRole::statistic,
                             .per_token = true,
                             .columns = statistics_per_row});
  op(OpKind::head_stats, {{normed}, {inputs().targets}, {parameter(name)}, {stats}});
  op(OpKind::head_stats_loss, {{stats}, {inputs().targets}, {inputs().loss}});
}

}  // namespace parbuckle
