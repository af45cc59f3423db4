#include "engine/graph/autodiff.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>

namespace parbuckle {
namespace {

/// The backward of one unit.
class UnitBackward {
 public:
  UnitBackward(Graph& graph, GraphUnit& unit) : graph_(graph), unit_(unit) {}

  Status run() {
    for (const ValueId p : unit_.parameters) {
      unit_.gradients.push_back(add_gradient(p, ValueRole::gradient));
      parameter_gradient_[p] = unit_.gradients.back();
    }
    if (unit_.output.valid()) {
      gradient_[unit_.output] = graph_.inputs.stream;
    }
    for (std::size_t i = unit_.forward.size(); i-- > 0;) {
      PARBUCKLE_TRY(differentiate(unit_.forward[i], i));
    }
    return {};
  }

 private:
  ValueId add_gradient(ValueId of, ValueRole role) {
    GraphValue value = graph_.values[of.index()];
    value.name = "gradient(" + value.name + (role == ValueRole::gradient ? ") in " : ")");
    value.name += role == ValueRole::gradient ? unit_.name : "";
    value.role = role;
    value.gradient_of = of;
    graph_.values.push_back(std::move(value));
    return ValueId(graph_.values.size() - 1);
  }

  /// The gradient of a value that some later op has already contributed to.
  [[nodiscard]] bool has(ValueId value) const { return gradient_.count(value) != 0; }

  ValueUse incoming(ValueUse y) { return {gradient_.at(y.value), y.heads}; }

  /// Where the gradient of x goes; made at its first contribution. The unit's input has the stream.
  ValueUse outgoing(ValueUse x) {
    if (!has(x.value)) {
      gradient_[x.value] =
          x.value == unit_.input ? graph_.inputs.stream : add_gradient(x.value, ValueRole::inner);
    }
    return {gradient_.at(x.value), x.heads};
  }

  ValueUse parameter(ValueUse w) { return {parameter_gradient_.at(w.value), w.heads}; }

  void emit(OpKind kind, std::vector<ValueUse> operands, const Attributes& attributes) {
    unit_.backward.push_back(
        {.kind = kind, .attributes = attributes, .operands = std::move(operands)});
  }

  struct Rule {
    OpKind forward;
    Status (UnitBackward::*apply)(const GraphOp& op, std::size_t index);
  };
  static std::span<const Rule> rules();

  Status differentiate(const GraphOp& op, std::size_t index);
  Status sum(const GraphOp& op, std::size_t index);
  Status linear(const GraphOp& op, std::size_t index);
  Status rms_norm(const GraphOp& op, std::size_t index);
  Status layer_norm(const GraphOp& op, std::size_t index);
  Status attention(const GraphOp& op, std::size_t index);
  Status rope(const GraphOp& op, std::size_t index);
  Status activation(const GraphOp& op, std::size_t index);
  Status gated(const GraphOp& op, std::size_t index);
  Status split(const GraphOp& op, std::size_t index);
  Status embedding(const GraphOp& op, std::size_t index);
  Status position(const GraphOp& op, std::size_t index);
  Status head(const GraphOp& op, std::size_t index);
  Status nothing(const GraphOp& /*op*/, std::size_t /*index*/) { return {}; }

  Status fault(const GraphOp& op, const std::string& what) const {
    return internal_error("autodiff of " + unit_.name + ": " + std::string(to_string(op.kind)) +
                          ": " + what);
  }

  Graph& graph_;
  GraphUnit& unit_;
  std::map<ValueId, ValueId> gradient_;
  std::map<ValueId, ValueId> parameter_gradient_;
};

/// y = a + b: both gradients are y's own, in one place. That is right only while nobody adds to a's share before b's
/// producer has read its own, so neither that producer nor anyone between it and the sum may read a.
Status UnitBackward::sum(const GraphOp& op, std::size_t index) {
  const ValueId a = op.operands[0].value;
  const ValueId b = op.operands[1].value;
  if (has(a) || has(b)) {
    return fault(op, "an operand of the sum is used again later");
  }
  const auto touches = [](const GraphOp& other, ValueId value) {
    return std::any_of(other.operands.begin(), other.operands.end(), [value](const ValueUse& use) {
      return use.value == value;
    });
  };
  for (std::size_t i = index; i-- > 0;) {
    if (touches(unit_.forward[i], a)) {
      return fault(op, "the first operand is read after the second was made");
    }
    if (touches(unit_.forward[i], b)) {
      break;
    }
  }
  gradient_[a] = gradient_.at(op.operands[2].value);
  gradient_[b] = gradient_.at(op.operands[2].value);
  return {};
}

Status UnitBackward::linear(const GraphOp& op, std::size_t /*index*/) {
  const ValueUse x = op.operands[0];
  const ValueUse w = op.operands[1];
  const ValueUse dy = incoming(op.operands[2]);
  Attributes attributes = op.attributes;
  emit(OpKind::linear_backward_weight, {x, dy, parameter(w)}, attributes);
  if (op.operands.size() > 3) {
    emit(OpKind::bias_backward, {dy, parameter(op.operands[3])}, {});
  }
  attributes.accumulate = has(x.value);
  emit(OpKind::linear_backward_input, {dy, w, outgoing(x)}, attributes);
  return {};
}

Status UnitBackward::rms_norm(const GraphOp& op, std::size_t /*index*/) {
  const auto& o = op.operands;
  Attributes attributes = op.attributes;
  attributes.accumulate = has(o[0].value);
  emit(OpKind::rms_norm_backward,
       {o[0], o[1], o[3], incoming(o[2]), outgoing(o[0]), parameter(o[1])},
       attributes);
  return {};
}

Status UnitBackward::layer_norm(const GraphOp& op, std::size_t /*index*/) {
  const auto& o = op.operands;
  Attributes attributes = op.attributes;
  attributes.accumulate = has(o[0].value);
  const ValueUse dy = incoming(o[3]);
  const ValueUse dx = outgoing(o[0]);
  emit(OpKind::layer_norm_backward,
       {o[0], o[1], o[4], o[5], dy, dx, parameter(o[1]), parameter(o[2])},
       attributes);
  return {};
}

Status UnitBackward::attention(const GraphOp& op, std::size_t /*index*/) {
  const auto& o = op.operands;
  if (has(o[0].value) || has(o[1].value) || has(o[2].value)) {
    return fault(op, "q, k or v is used again later");
  }
  const ValueUse dout = incoming(o[4]);
  const ValueUse dq = outgoing(o[0]);
  const ValueUse dk = outgoing(o[1]);
  const ValueUse dv = outgoing(o[2]);
  emit(OpKind::attention_backward,
       {o[0], o[1], o[2], o[3], o[4], o[5], dout, dq, dk, dv},
       op.attributes);
  return {};
}

Status UnitBackward::rope(const GraphOp& op, std::size_t /*index*/) {
  emit(OpKind::rope_backward, {incoming(op.operands[0]), op.operands[1]}, op.attributes);
  return {};
}

Status UnitBackward::activation(const GraphOp& op, std::size_t /*index*/) {
  const auto& o = op.operands;
  emit(OpKind::activation_backward, {o[0], incoming(o[1]), outgoing(o[0])}, op.attributes);
  return {};
}

Status UnitBackward::gated(const GraphOp& op, std::size_t /*index*/) {
  const auto& o = op.operands;
  const ValueUse dgate = outgoing(o[0]);
  const ValueUse dup = outgoing(o[1]);
  emit(OpKind::gated_backward, {o[0], o[1], incoming(o[2]), dgate, dup}, op.attributes);
  return {};
}

Status UnitBackward::split(const GraphOp& op, std::size_t /*index*/) {
  const auto& o = op.operands;
  emit(OpKind::merge3, {incoming(o[1]), incoming(o[2]), incoming(o[3]), outgoing(o[0])}, {});
  return {};
}

Status UnitBackward::embedding(const GraphOp& op, std::size_t /*index*/) {
  const auto& o = op.operands;
  emit(OpKind::embedding_backward, {{graph_.inputs.slots}, incoming(o[2]), parameter(o[1])}, {});
  return {};
}

Status UnitBackward::position(const GraphOp& op, std::size_t /*index*/) {
  const auto& o = op.operands;
  emit(OpKind::embedding_backward, {o[0], incoming(o[2]), parameter(o[1])}, {});
  return {};
}

Status UnitBackward::head(const GraphOp& op, std::size_t /*index*/) {
  const auto& o = op.operands;
  const ValueUse step = {graph_.inputs.step};
  emit(OpKind::head_grad,
       {o[0], o[1], step, o[2], parameter(o[2]), o[3], outgoing(o[0])},
       {.first = true});
  return {};
}

std::span<const UnitBackward::Rule> UnitBackward::rules() {
  using U = UnitBackward;
  static constexpr std::array<Rule, 14> all = {{
      {OpKind::add, &U::sum},
      {OpKind::linear_forward, &U::linear},
      {OpKind::rms_norm_forward, &U::rms_norm},
      {OpKind::layer_norm_forward, &U::layer_norm},
      {OpKind::attention_forward, &U::attention},
      {OpKind::rope_forward, &U::rope},
      {OpKind::activation_forward, &U::activation},
      {OpKind::gated_forward, &U::gated},
      {OpKind::split3, &U::split},
      {OpKind::embedding_forward, &U::embedding},
      {OpKind::position_forward, &U::position},
      {OpKind::head_stats, &U::head},
      {OpKind::rope_table, &U::nothing},       // positions have no gradient
      {OpKind::head_stats_loss, &U::nothing},  // the loss is where gradients begin
  }};
  return all;
}

Status UnitBackward::differentiate(const GraphOp& op, std::size_t index) {
  for (const Rule& rule : rules()) {
    if (rule.forward == op.kind) {
      return (this->*rule.apply)(op, index);
    }
  }
  return fault(op, "no rule");
}

}  // namespace

Status append_backward(Graph& graph) {
  const auto residual =
      std::find_if(graph.values.begin(), graph.values.end(), [](const GraphValue& value) {
        return value.role == ValueRole::residual;
      });
  if (residual == graph.values.end()) {
    return internal_error("autodiff of " + graph.name + ": no unit writes a residual stream");
  }
  GraphValue stream = *residual;
  stream.name = "stream";
  stream.role = ValueRole::stream;
  graph.values.push_back(std::move(stream));
  graph.inputs.stream = ValueId(graph.values.size() - 1);
  for (GraphUnit& unit : graph.units) {
    PARBUCKLE_TRY(UnitBackward(graph, unit).run());
  }
  return {};
}

}  // namespace parbuckle
