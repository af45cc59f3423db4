#include <utility>

#include "engine/graph/lowering.h"

namespace parbuckle {

/// One forward task per part of the table; ops before the look-up go with the first part, ops behind it with the last.
Status Lowering::lower_embedding() {
  const GraphUnit& unit = embedding();
  Unit to = {.name = unit.name};
  Alternative only = {.name = train() ? "keep" : "forward"};
  const std::vector<TablePart>& parts = tables_.front().parts;
  std::vector<TaskOp> before;
  std::vector<TaskOp> after;
  TaskOp look_up;
  for (const TaskOp& op : task_ops(unit.forward, {})) {
    if (op.kind == OpKind::embedding_forward) {
      look_up = op;
    } else {
      (look_up.operands.empty() ? before : after).push_back(op);
    }
  }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::vector<TaskOp> ops = p == 0 ? before : std::vector<TaskOp>{};
    look_up.operands[1] = part_weight(parts[p]);
    look_up.attributes.row_begin = parts[p].row_begin;
    ops.push_back(look_up);
    if (p + 1 == parts.size()) {
      ops.insert(ops.end(), after.begin(), after.end());
    }
    PARBUCKLE_TRY(add_task(unit.family + ".forward", ops, only.forward));
  }
  if (train()) {
    Places sparse;
    sparse[unit.backward.back().operands[2].value] = {.span = sparse_gradient_};
    std::vector<TaskOp> ops = task_ops(unit.backward, sparse);
    ops.back().operands[2] = rows_of(sparse_gradient_, out_.bindings.touched_capacity);
    PARBUCKLE_TRY(add_task(unit.family + ".backward", ops, only.backward));
    PARBUCKLE_TRY(zero_span(sparse_gradient_, to.gradient_begin));
    PARBUCKLE_TRY(packed_gradient_tasks(unit, to));

    const std::int64_t touched = out_.bindings.touched_capacity;
    TaskOp sums = {.kind = OpKind::row_square_sum_touched,
                   .attributes = {.row_begin = tied() ? 0 : -1},
                   .operands = {touched_operand(out_.bindings.touched)}};
    if (tied()) {
      sums.operands.push_back(rows_of(touched_rows_, touched));
    }
    sums.operands.push_back(rows_of(sparse_gradient_, touched));
    sums.operands.push_back(partial_operand(table_partial_, 0, vocabulary_));
    PARBUCKLE_TRY(add_task(unit.family + ".square_sum", {sums}, to.gradient_end));
  }
  to.alternatives.push_back(std::move(only));
  out_.workload.units.push_back(std::move(to));
  return {};
}

}  // namespace parbuckle
