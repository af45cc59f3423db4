#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/graph/lowering.h"
#include "engine/graph/op_facts.h"

namespace parbuckle {

/// The head's forward is its norm, then the loss against the table.
std::vector<GraphOp> Lowering::head_norm() const {
  const auto& ops = head().forward;
  const auto loss = std::find_if(
      ops.begin(), ops.end(), [](const GraphOp& op) { return op.kind == OpKind::head_stats; });
  return {ops.begin(), loss};
}

/// Small vocabularies: logits of all parts are there at once, so loss and gradients come from one pass in the backward.
Status Lowering::head_one_pass(Alternative& alternative) {
  const GraphUnit& unit = head();
  const std::vector<TablePart>& parts = tables_.back().parts;
  std::vector<TaskOp> ops = task_ops(head_norm(), {});
  const GraphOp& grad = unit.backward.front();  // h, targets, step, table, gradient, stats, dh
  TaskOp loss = {.kind = OpKind::head_loss,
                 .attributes = {.parts = static_cast<std::int32_t>(parts.size())},
                 .operands = {operand(grad.operands[0], {}),
                              operand(grad.operands[1], {}),
                              step_operand(),
                              operand({graph_.inputs.loss}, {}),
                              operand(grad.operands[6], {})}};
  for (const TablePart& part : parts) {
    loss.operands.push_back(part_weight(part));
  }
  for (const TablePart& part : parts) {
    loss.operands.push_back(part_gradient(part));
  }
  ops.push_back(std::move(loss));
  const std::vector<GraphOp> norm(std::next(unit.backward.begin()), unit.backward.end());
  for (TaskOp& op : task_ops(norm, {})) {
    ops.push_back(std::move(op));
  }
  return add_task(unit.family + ".backward", ops, alternative.backward);
}

/// Part by part: running maximum and sum of each row, then the loss. What the parts share waits in `places`.
Status Lowering::head_stats(Alternative& alternative, Places& places) {
  const GraphUnit& unit = head();
  const std::vector<TablePart>& parts = tables_.back().parts;
  const std::vector<GraphOp> norm = head_norm();
  std::vector<ValueId> normed;
  for (const GraphOp& op : norm) {
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      if (operand_access(op.kind, op.attributes, o) == Access::write) {
        normed.push_back(op.operands[o].value);
      }
    }
  }
  keep(unit.name + ".saved", Role::activation, normed, places);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::vector<TaskOp> ops = p == 0 ? task_ops(norm, places) : std::vector<TaskOp>{};
    const std::vector<GraphOp> loss(unit.forward.begin() + std::ssize(norm), unit.forward.end());
    std::vector<TaskOp> both = task_ops(loss, places);  // head_stats, head_stats_loss
    both[0].attributes.row_begin = parts[p].row_begin;
    both[0].attributes.first = p == 0;
    both[0].operands[2] = part_weight(parts[p]);
    ops.push_back(std::move(both[0]));
    if (p + 1 == parts.size()) {
      ops.push_back(std::move(both[1]));
    }
    PARBUCKLE_TRY(add_task(unit.family + ".stats", ops, alternative.forward));
  }
  return {};
}

/// Part by part: logits again, the part's gradient, and its share of dh, which gathers in the stream.
Status Lowering::head_grad(Alternative& alternative, const Places& places) {
  const GraphUnit& unit = head();
  const std::vector<TablePart>& parts = tables_.back().parts;
  const std::vector<TaskOp> backward = task_ops(unit.backward, places);
  const Operand stream = operand({graph_.inputs.stream}, {});
  const Operand dh = backward.front().operands[6];
  for (std::size_t p = 0; p < parts.size(); ++p) {
    TaskOp grad = backward.front();
    grad.attributes.row_begin = parts[p].row_begin;
    grad.attributes.first = p == 0;
    grad.operands[3] = part_weight(parts[p]);
    grad.operands[4] = part_gradient(parts[p]);
    grad.operands[6] = stream;
    std::vector<TaskOp> ops = {std::move(grad)};
    if (p + 1 == parts.size()) {
      ops.push_back({.kind = OpKind::copy, .operands = {stream, dh}});
      ops.insert(ops.end(), std::next(backward.begin()), backward.end());
    }
    PARBUCKLE_TRY(add_task(unit.family + ".grad", ops, alternative.backward));
  }
  return {};
}

/// Prefill and decode: the chosen rows of the stream, their norm, and their logits part by part.
Status Lowering::head_logits(Alternative& alternative) {
  const GraphUnit& unit = head();
  const std::int64_t rows = options_.logit_rows;
  const std::vector<TablePart>& parts = tables_.back().parts;
  const std::vector<GraphOp> norm = head_norm();
  const ValueId normed = unit.forward[norm.size()].operands[0].value;
  const SpanId selected =
      span("head.selected", rows * hidden_ * 4, {.role = Role::statistic, .pinned = true});
  Operand chosen = {.temporary = -2, .rows = rows, .columns = hidden_};
  std::vector<TaskOp> first = {{.kind = OpKind::embedding_forward,
                                .operands = {vector_of(out_.bindings.selected, 0, rows, DType::i32),
                                             operand({unit.input}, {}),
                                             chosen}}};
  for (TaskOp& op : task_ops(norm, {{normed, {.span = selected}}})) {
    for (Operand& o : op.operands) {
      o = o.place == operand({unit.input}, {}).place ? chosen : o;
      o.rows = o.per_token ? rows : o.rows;
      o.per_token = false;
    }
    first.push_back(std::move(op));
  }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::vector<TaskOp> ops = p == 0 ? first : std::vector<TaskOp>{};
    Operand logits =
        vector_of(out_.bindings.logits, rows * parts[p].row_begin * 4, rows, DType::f32);
    logits.columns = parts[p].rows;
    ops.push_back({.kind = OpKind::linear_forward,
                   .operands = {rows_of(selected, rows), part_weight(parts[p]), logits}});
    PARBUCKLE_TRY(add_task(unit.family + ".logits", ops, alternative.forward));
    for (Use& use : alternative.forward.back().uses) {
      if (use.span == out_.bindings.logits && p > 0) {
        use.access = Access::update;  // the logits of the parts before this one stay
      }
    }
  }
  return {};
}

/// Tied: squared sums per row of the table, and the rows that the embedding's backward will complete.
Status Lowering::head_gradient_tasks(Unit& unit) {
  const std::vector<TablePart>& parts = tables_.back().parts;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const TablePart& part = parts[p];
    PARBUCKLE_TRY(zero_span(part.gradient, unit.gradient_begin));
    if (!tied()) {
      const std::int64_t count = part.rows * hidden_;
      const std::int64_t chunks = (count + square_sum_chunk - 1) / square_sum_chunk;
      PARBUCKLE_TRY(add_task(
          "head.square_sum",
          {{.kind = OpKind::square_sum,
            .operands = {part_gradient(part), partial_operand(head_part_partial_[p], 0, chunks)}}},
          unit.gradient_end));
      continue;
    }
    PARBUCKLE_TRY(
        add_task("head.row_square_sum",
                 {{.kind = OpKind::row_square_sum,
                   .operands = {part_gradient(part),
                                partial_operand(table_partial_, part.row_begin * 8, part.rows)}},
                  {.kind = OpKind::gather_touched,
                   .attributes = {.row_begin = part.row_begin},
                   .operands = {touched_operand(out_.bindings.touched),
                                part_gradient(part),
                                rows_of(touched_rows_, out_.bindings.touched_capacity)}}},
                 unit.gradient_end));
  }
  return {};
}

Status Lowering::lower_head() {
  Unit to = {.name = head().name};
  Alternative only = {.name = train() ? "keep" : "forward"};
  Places places;
  if (cached()) {
    PARBUCKLE_TRY(head_logits(only));
  } else if (train() && vocabulary_ <= options_.one_pass_vocabulary) {
    PARBUCKLE_TRY(head_one_pass(only));
  } else {
    PARBUCKLE_TRY(head_stats(only, places));
    if (train()) {
      PARBUCKLE_TRY(head_grad(only, places));
    }
  }
  if (train()) {
    PARBUCKLE_TRY(head_gradient_tasks(to));
    PARBUCKLE_TRY(packed_gradient_tasks(head(), to));  // of the norm: with the last part
  }
  to.alternatives.push_back(std::move(only));
  out_.workload.units.push_back(std::move(to));
  return {};
}

}  // namespace parbuckle
