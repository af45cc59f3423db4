#include <utility>

#include "engine/graph/lowering.h"
#include "engine/graph/storage.h"

namespace parbuckle {

Operand Lowering::operand(const ValueUse& use, const Places& places) const {
  const GraphValue& v = value(use.value);
  Operand operand = {.dtype = v.dtype,
                     .per_token = v.per_token,
                     .rows = v.per_token ? use.heads : v.rows,
                     .columns = v.columns / use.heads};
  const auto own = places.find(use.value);
  const auto common = places_.find(use.value);
  if (own != places.end()) {
    operand.place = own->second;
  } else if (common != places_.end()) {
    operand.place = common->second;
  } else {
    operand.temporary = use.value.value;
  }
  return operand;
}

std::vector<TaskOp> Lowering::task_ops(const std::vector<GraphOp>& ops,
                                       const Places& places) const {
  std::vector<TaskOp> out;
  for (const GraphOp& op : ops) {
    TaskOp task = {.kind = op.kind, .attributes = op.attributes};
    for (const ValueUse& use : op.operands) {
      task.operands.push_back(operand(use, places));
    }
    out.push_back(std::move(task));
  }
  return out;
}

Operand Lowering::vector_of(SpanId span,
                            std::int64_t offset,
                            std::int64_t count,
                            DType dtype) const {
  return {.place = {.span = span, .offset = offset}, .dtype = dtype, .rows = count};
}

Operand Lowering::rows_of(SpanId span, std::int64_t rows) const {
  return {.place = {.span = span}, .rows = rows, .columns = hidden_};
}

Operand Lowering::part_weight(const TablePart& part) const {
  return rows_of(part.weight, part.rows);
}

Operand Lowering::part_gradient(const TablePart& part) const {
  return rows_of(part.gradient, part.rows);
}

Operand Lowering::touched_operand(SpanId span) const {
  constexpr std::int64_t header = sizeof(TouchedRows) / sizeof(std::int32_t);
  return vector_of(span, 0, header + out_.bindings.touched_capacity, DType::i32);
}

Operand Lowering::update_operand() const {
  return vector_of(out_.bindings.update, 0, sizeof(UpdateScalars), DType::u8);
}

Operand Lowering::step_operand() const {
  return operand({graph_.inputs.step}, {});
}

Operand Lowering::partial_operand(std::int32_t partial,
                                  std::int64_t offset,
                                  std::int64_t count) const {
  Operand sums = vector_of(partials_, offset, count, DType::f64);
  sums.place.block = partial;
  return sums;
}

void Lowering::keep(const std::string& name,
                    Role role,
                    const std::vector<ValueId>& values,
                    Places& places) {
  const SpanId span(out_.workload.spans.size());
  std::int64_t row_bytes = 0;
  std::int64_t fixed_bytes = 0;
  for (const ValueId id : values) {
    places[id] = {.span = span, .offset = fixed_bytes, .row_bytes = row_bytes};
    row_bytes += value(id).columns * size_of(value(id).dtype);
    fixed_bytes += 64;  // values begin at multiples of 64 also where rows * row_bytes does not
  }
  add_token_span(out_.workload, name, row_bytes, fixed_bytes, {.role = role});
}

Status Lowering::add_task(const std::string& name,
                          const std::vector<TaskOp>& ops,
                          std::vector<TaskTemplate>& to) {
  PARBUCKLE_ASSIGN(TaskTemplate task, compiler_.task(name, ops));
  to.push_back(std::move(task));
  return {};
}

Status Lowering::zero_span(SpanId span, std::vector<TaskTemplate>& to) {
  const std::int64_t bytes = out_.workload.spans[span.index()].bytes;
  return add_task(
      "gradient.zero",
      {{.kind = OpKind::fill_zero, .operands = {vector_of(span, 0, bytes / 4, DType::f32)}}},
      to);
}

}  // namespace parbuckle
