#include <algorithm>
#include <set>
#include <utility>

#include "parbuckle/units.h"

#include "engine/graph/lowering.h"
#include "engine/graph/recompute.h"

namespace parbuckle {
namespace {

std::vector<GraphOp> joined(std::vector<GraphOp> first, const std::vector<GraphOp>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

/// Prefill and decode: attention reads keys and values of earlier passes from a cache, (T, K) each.
std::vector<GraphOp> Lowering::cached_ops(const GraphUnit& unit, Places& places) {
  std::vector<GraphOp> ops = unit.forward;
  for (GraphOp& op : ops) {
    if (op.kind != OpKind::attention_forward) {
      continue;
    }
    const std::int64_t rows = options_.shapes.back().cache_rows;
    const std::int64_t columns = value(op.operands[1].value).columns;
    const std::int64_t bytes = round_up(rows * columns * 4, 64);
    const SpanId cache = span(unit.name + ".kv_cache",
                              2 * bytes,
                              {.role = Role::kv_cache, .persistent = true, .starts_zero = true});
    std::vector<ValueUse> caches;
    for (const char* const which : {".k_cache", ".v_cache"}) {
      const ValueId id(graph_.values.size());
      graph_.values.push_back({.name = unit.name + which, .rows = rows, .columns = columns});
      places[id] = {.span = cache, .offset = caches.empty() ? 0 : bytes};
      caches.push_back({id});
    }
    const auto& o = op.operands;
    op.kind = OpKind::attention_cached;
    op.operands = {o[0], o[1], o[2], {graph_.inputs.positions}, caches[0], caches[1], o[4]};
  }
  return ops;
}

Status Lowering::packed_gradient_tasks(const GraphUnit& unit, Unit& to) {
  const auto packed = packed_.find(unit.name);
  if (packed == packed_.end()) {
    return {};
  }
  const SpanId span = packed->second.gradient;
  PARBUCKLE_TRY(zero_span(span, to.gradient_begin));
  std::vector<TaskOp> sums;
  std::int64_t chunks = 0;
  for (const BlockId id : out_.workload.spans[span.index()].blocks) {
    const Block& block = out_.workload.blocks[id.index()];
    const std::int64_t count = block.bytes / 4;
    const std::int64_t parts = (count + square_sum_chunk - 1) / square_sum_chunk;
    sums.push_back(
        {.kind = OpKind::square_sum,
         .operands = {vector_of(span, block.span_offset, count, DType::f32),
                      partial_operand(packed_partial_.at(unit.name), chunks * 8, parts)}});
    chunks += parts;
  }
  return add_task(unit.family + ".square_sum", sums, to.gradient_end);
}

Status Lowering::lower_layer(const GraphUnit& unit) {
  Unit to = {.name = unit.name};
  if (!train()) {
    Places places;
    Alternative only = {.name = "forward"};
    const std::vector<GraphOp> ops = cached() ? cached_ops(unit, places) : unit.forward;
    PARBUCKLE_TRY(add_task(unit.family + ".forward", task_ops(ops, places), only.forward));
    to.alternatives.push_back(std::move(only));
    out_.workload.units.push_back(std::move(to));
    return {};
  }
  const std::vector<ValueId> saved = saved_values(unit);
  Places kept;
  keep(unit.name + ".saved", Role::activation, saved, kept);
  const auto add_alternative = [&](const std::string& name, const Places& places) -> Status {
    std::set<ValueId> available;
    for (const auto& [id, place] : places) {
      available.insert(id);
    }
    Alternative alternative = {.name = name};
    const std::string prefix = unit.family + "." + name;
    PARBUCKLE_TRY(
        add_task(prefix + ".forward", task_ops(unit.forward, places), alternative.forward));
    const std::vector<GraphOp> backward = joined(ops_to_redo(unit, available), unit.backward);
    PARBUCKLE_TRY(add_task(prefix + ".backward", task_ops(backward, places), alternative.backward));
    to.alternatives.push_back(std::move(alternative));
    return {};
  };
  PARBUCKLE_TRY(add_alternative("keep", kept));
  PARBUCKLE_TRY(add_alternative("recompute", {}));
  PARBUCKLE_TRY(packed_gradient_tasks(unit, to));
  out_.workload.units.push_back(std::move(to));
  return {};
}

}  // namespace parbuckle
