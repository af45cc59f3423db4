// The state of one lowering, shared by the files that lower the embedding, the layers, the head and the step around them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parbuckle/status.h"

#include "engine/graph/lower.h"
#include "engine/graph/program_writer.h"
#include "engine/graph/storage.h"

namespace parbuckle {

/// Rows [row_begin, row_begin + rows) of a table, one block.
struct TablePart {
  std::int64_t row_begin = 0;
  std::int64_t rows = 0;
  SpanId weight;
  SpanId moment1;
  SpanId moment2;
  SpanId gradient;  // dense, of the head's use; invalid for a table that only the embedding uses
};

/// A parameter as long as the vocabulary, cut into row blocks by shape alone.
struct Table {
  ValueId parameter;
  std::vector<TablePart> parts;
};

/// All other parameters of a unit, one behind the other in one span; moments and gradient have the same layout.
struct Packed {
  std::vector<ValueId> parameters;
  std::vector<std::int64_t> offsets;  // bytes, multiples of 64
  SpanId weight;
  SpanId moment1;
  SpanId moment2;
  SpanId gradient;
};

using Places = std::map<ValueId, Place>;

class Lowering {
 public:
  Lowering(Graph graph, const LowerOptions& options, const OpTable& device);
  Result<Lowered> run();

 private:
  [[nodiscard]] bool train() const { return options_.phase == Phase::train; }
  [[nodiscard]] bool cached() const {
    return options_.phase == Phase::prefill || options_.phase == Phase::decode;
  }
  [[nodiscard]] const GraphValue& value(ValueId id) const { return graph_.values[id.index()]; }
  [[nodiscard]] const GraphUnit& embedding() const { return graph_.units.front(); }
  [[nodiscard]] const GraphUnit& head() const { return graph_.units.back(); }
  [[nodiscard]] bool tied() const { return embedding_table_ == head_table_; }

  // lowering_storage.cpp: spans and places
  Status check_options() const;
  SpanId span(const std::string& name, std::int64_t bytes, const Storage& storage);
  void place_batch();
  void place_step();
  void place_residuals();
  void place_tables();
  Table cut_table(ValueId parameter, const std::string& name);
  void place_head_gradients();
  void place_packed(const GraphUnit& unit);
  void place_partials();
  std::int32_t add_partial(const std::string& name, std::int64_t count);
  void list_parameters();
  void list_table(const Table& table, ParameterPlacement& placement);
  void list_packed(const Packed& packed);

  // lowering_ops.cpp: operands
  [[nodiscard]] Operand operand(const ValueUse& use, const Places& places) const;
  [[nodiscard]] std::vector<TaskOp> task_ops(const std::vector<GraphOp>& ops,
                                             const Places& places) const;
  [[nodiscard]] Operand vector_of(SpanId span,
                                  std::int64_t offset,
                                  std::int64_t count,
                                  DType dtype) const;
  [[nodiscard]] Operand rows_of(SpanId span, std::int64_t rows) const;
  [[nodiscard]] Operand part_weight(const TablePart& part) const;
  [[nodiscard]] Operand part_gradient(const TablePart& part) const;
  [[nodiscard]] Operand touched_operand(SpanId span) const;
  [[nodiscard]] Operand update_operand() const;
  [[nodiscard]] Operand step_operand() const;
  [[nodiscard]] Operand partial_operand(std::int32_t partial,
                                        std::int64_t offset,
                                        std::int64_t count) const;
  /// Keeps `values` from one task to a later one in one span per micro-batch; their places are added to `places`.
  void keep(const std::string& name, Role role, const std::vector<ValueId>& values, Places& places);
  Status add_task(const std::string& name,
                  const std::vector<TaskOp>& ops,
                  std::vector<TaskTemplate>& to);

  // lowering_embedding.cpp, lowering_layer.cpp, lowering_head.cpp
  Status lower_embedding();
  Status lower_layer(const GraphUnit& unit);
  Status lower_head();
  Status head_one_pass(Alternative& alternative);
  Status head_stats(Alternative& alternative, Places& places);
  Status head_grad(Alternative& alternative, const Places& places);
  Status head_logits(Alternative& alternative);
  Status head_gradient_tasks(Unit& unit);
  [[nodiscard]] std::vector<GraphOp> head_norm() const;
  [[nodiscard]] std::vector<GraphOp> cached_ops(const GraphUnit& unit, Places& places);
  Status packed_gradient_tasks(const GraphUnit& unit, Unit& to);
  Status zero_span(SpanId span, std::vector<TaskTemplate>& to);

  // lowering_step.cpp
  Status lower_step();
  Status lower_updates();
  Status update_packed(const GraphUnit& unit);
  Status update_table(const Table& table, const std::string& name);

  const LowerOptions options_;
  Graph graph_;
  Lowered out_;
  TaskCompiler compiler_;
  Places places_;  // of values that have one place for all tasks
  std::map<std::string, Packed>
      packed_;  // by unit name; units whose parameters are all tables have none
  std::map<std::string, std::int32_t> packed_partial_;
  ValueId embedding_table_;
  ValueId head_table_;
  std::vector<Table> tables_;  // embedding, then the head's unless tied
  std::int64_t hidden_ = 0;
  std::int64_t vocabulary_ = 0;
  SpanId sparse_gradient_;
  SpanId touched_rows_;  // tied: rows of the head's gradient that the step's ids touch
  SpanId update_touched_;
  SpanId partials_;
  std::vector<std::pair<std::string, std::int64_t>> partial_blocks_;  // name, bytes
  std::int32_t table_partial_ = -1;              // sums per row of the embedding's table
  std::vector<std::int32_t> head_part_partial_;  // untied: sums of each part
};

}  // namespace parbuckle
