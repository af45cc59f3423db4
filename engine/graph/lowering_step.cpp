#include <algorithm>
#include <utility>

#include "engine/graph/lowering.h"

namespace parbuckle {

Status Lowering::lower_step() {
  Workload& w = out_.workload;
  const StepBindings& bindings = out_.bindings;
  const std::int64_t partials = bindings.partial_count;
  PARBUCKLE_TRY(add_task("step.begin",
                         {{.kind = OpKind::fill_zero,
                           .operands = {vector_of(partials_, 0, 2 * partials, DType::f32)}}},
                         w.begin));
  const TaskOp keep_touched = {
      .kind = OpKind::copy,
      .operands = {touched_operand(bindings.touched), touched_operand(update_touched_)}};
  PARBUCKLE_TRY(
      add_task("step.turn",
               {{.kind = OpKind::prepare_update, .operands = {step_operand(), update_operand()}},
                keep_touched},
               w.turn));
  return add_task("step.finish",
                  {{.kind = OpKind::global_norm,
                    .operands = {vector_of(partials_, 0, partials, DType::f64),
                                 step_operand(),
                                 update_operand()}},
                   keep_touched},
                  w.finish);
}

Status Lowering::update_packed(const GraphUnit& unit) {
  const auto found = packed_.find(unit.name);
  if (found == packed_.end()) {
    return {};
  }
  const Packed& packed = found->second;
  const std::size_t blocks = out_.workload.spans[packed.weight.index()].blocks.size();
  for (std::size_t b = 0; b < blocks; ++b) {
    const BlockId id = out_.workload.spans[packed.weight.index()].blocks[b];
    std::vector<TaskOp> ops;
    for (const ValueId parameter : packed.parameters) {
      for (const ParameterPiece& piece : out_.parameters[parameter.index()].pieces) {
        if (piece.weight != id) {
          continue;
        }
        TaskOp op = {.kind = OpKind::adamw, .attributes = {.decay = !value(parameter).vector}};
        for (const SpanId span : {packed.weight, packed.moment1, packed.moment2, packed.gradient}) {
          op.operands.push_back(vector_of(span, piece.offset, piece.count, DType::f32));
          op.operands.back().place.block = static_cast<std::int32_t>(b);
        }
        op.operands.push_back(update_operand());
        ops.push_back(std::move(op));
      }
    }
    PARBUCKLE_ASSIGN(TaskTemplate task, compiler_.task(unit.family + ".update", ops));
    out_.workload.updates.push_back(
        {.span = packed.weight, .block = static_cast<std::int32_t>(b), .task = std::move(task)});
  }
  return {};
}

/// The embedding's gradient is its sparse rows, with a tied head the dense part beside them; an untied head's is dense.
Status Lowering::update_table(const Table& table, const std::string& name) {
  const bool sparse = table.parameter == embedding_table_;
  for (const TablePart& part : table.parts) {
    TaskOp op = {.kind = sparse ? OpKind::adamw_table : OpKind::adamw,
                 .attributes = {.row_begin = part.row_begin, .decay = true}};
    for (const SpanId span : {part.weight, part.moment1, part.moment2}) {
      op.operands.push_back(rows_of(span, part.rows));
    }
    if (sparse) {
      op.operands.push_back(rows_of(sparse_gradient_, out_.bindings.touched_capacity));
      op.operands.push_back(touched_operand(update_touched_));
      op.operands.push_back(update_operand());
      if (tied()) {
        op.operands.push_back(part_gradient(part));
      }
    } else {
      op.attributes.row_begin = 0;  // parts of one size share a program
      op.operands.push_back(part_gradient(part));
      op.operands.push_back(update_operand());
    }
    PARBUCKLE_ASSIGN(TaskTemplate task, compiler_.task(name + ".update", {op}));
    out_.workload.updates.push_back({.span = part.weight, .block = 0, .task = std::move(task)});
  }
  return {};
}

Status Lowering::lower_updates() {
  PARBUCKLE_TRY(update_table(tables_.front(), "embedding"));
  for (const GraphUnit& unit : graph_.units) {
    PARBUCKLE_TRY(update_packed(unit));
  }
  return tied() ? Status() : update_table(tables_.back(), "head");
}

}  // namespace parbuckle
