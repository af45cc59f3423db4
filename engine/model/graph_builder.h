// What the builders of all model shapes share: naming, looking up parameters, and the ops every transformer has.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/graph.h"
#include "engine/model/config.h"

namespace parbuckle {

/// Writes one Graph, unit after unit. The values of parameters come first, in the order of parameters(config), so that
/// value i is parameter i.
class GraphBuilder {
 public:
  explicit GraphBuilder(const ModelConfig& config);

  /// `name` is unique; names of parameters and values inside the unit get their prefixes from here.
  void begin_unit(const std::string& name, const std::string& family, UnitKind kind);
  /// Parameters are looked up under this prefix ("model.layers.3.").
  void set_parameter_prefix(std::string prefix) { parameter_prefix_ = std::move(prefix); }
  void end_unit();

  /// A parameter of the model, used by the current unit.
  ValueId parameter(const std::string& name);
  /// A value inside the current unit, (R, columns).
  ValueId inner(const std::string& name, std::int64_t columns);
  /// The residual stream as the current unit reads it.
  [[nodiscard]] ValueId input() const;
  /// The residual stream as the current unit writes it; the next unit's input.
  ValueId output();
  [[nodiscard]] const BatchValues& inputs() const { return graph_.inputs; }

  void op(OpKind kind, std::vector<ValueUse> operands, const Attributes& attributes = {});

  /// y = x W^T + b with the weight `name`.weight and, if `bias`, `name`.bias; (R, columns).
  ValueId linear(ValueId x, const std::string& name, std::int64_t columns, bool bias);
  /// RMS norm with the weight `name`, over each of `heads` heads of x.
  ValueId rms_norm(ValueId x, const std::string& name, std::int32_t heads = 1);
  /// Layer norm with `name`.weight and `name`.bias.
  ValueId layer_norm(ValueId x, const std::string& name);
  /// Causal attention of one layer; q (R, heads * D), k and v (R, kv_heads * D).
  ValueId attention(ValueId q, ValueId k, ValueId v, std::int64_t layer);
  /// output = input + branch; ends a half-block.
  void add_to_residual(ValueId branch);
  /// Loss of the normed stream against the table `name`.
  void head(ValueId normed, const std::string& name);

  /// The finished graph; the builder is empty afterwards.
  Graph take() { return std::move(graph_); }

 private:
  ValueId add(GraphValue value);
  [[nodiscard]] std::int64_t columns(ValueId id) const { return graph_.values[id.index()].columns; }

  const ModelConfig config_;
  Graph graph_;
  GraphUnit unit_;
  std::string parameter_prefix_;
  std::map<std::string, ValueId> parameters_;
  ValueId residual_;  // last one written
};

}  // namespace parbuckle
