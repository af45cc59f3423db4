#include "engine/graph/lower.h"

#include <algorithm>
#include <utility>

#include "engine/graph/autodiff.h"
#include "engine/graph/lowering.h"
#include "engine/graph/signature.h"
#include "engine/model/graph.h"

namespace parbuckle {
namespace {

/// The table is the operand behind the ids or the hidden rows, wherever its op stands.
ValueId operand_of(const GraphUnit& unit, OpKind kind, std::size_t index) {
  const auto found = std::find_if(unit.forward.begin(),
                                  unit.forward.end(),
                                  [kind](const GraphOp& op) { return op.kind == kind; });
  return found == unit.forward.end() ? ValueId() : found->operands[index].value;
}

}  // namespace

Lowering::Lowering(Graph graph, const LowerOptions& options, const OpTable& device)
    : options_(options),
      graph_(std::move(graph)),
      compiler_(device, out_.workload, out_.programs),
      embedding_table_(operand_of(graph_.units.front(), OpKind::embedding_forward, 1)),
      head_table_(operand_of(graph_.units.back(), OpKind::head_stats, 2)),
      hidden_(value(embedding_table_).columns),
      vocabulary_(value(embedding_table_).rows) {
  Workload& w = out_.workload;
  w.name = graph_.name + "." + std::string(to_string(options_.phase));
  w.phase = options_.phase;
  w.micro_batches = options_.micro_batches;
  w.shapes = options_.shapes;
  w.clipping = train() && options_.clipping;
}

Result<Lowered> Lowering::run() {
  PARBUCKLE_TRY(check_options());
  place_batch();
  if (train()) {
    place_step();
  }
  place_residuals();
  place_tables();
  if (train()) {
    place_head_gradients();
  }
  for (const GraphUnit& unit : graph_.units) {
    place_packed(unit);
  }
  if (train()) {
    place_partials();
  }
  list_parameters();
  PARBUCKLE_TRY(lower_embedding());
  for (const GraphUnit& unit : graph_.units) {
    if (unit.kind == UnitKind::layer) {
      PARBUCKLE_TRY(lower_layer(unit));
    }
  }
  PARBUCKLE_TRY(lower_head());
  if (train()) {
    PARBUCKLE_TRY(lower_step());
    PARBUCKLE_TRY(lower_updates());
  }
  out_.graph = std::move(graph_);
  return std::move(out_);
}

Result<Lowered> lower(const ModelConfig& config,
                      const LowerOptions& options,
                      const OpTable& device) {
  Graph graph = model_graph(config);
  PARBUCKLE_TRY(append_backward(graph));
  PARBUCKLE_ASSIGN(Lowered lowered, Lowering(std::move(graph), options, device).run());
  lowered.workload.signature = signature_of(config, options);
  return lowered;
}

std::int64_t logit_offset(const StepBindings& bindings,
                          std::int64_t logit_rows,
                          std::int64_t row,
                          std::int64_t id) {
  const auto& begins = bindings.logit_rows_begin;
  const auto next = std::upper_bound(begins.begin(), begins.end(), id);
  const std::int64_t begin = *(next - 1);
  return 4 * (logit_rows * begin + row * (*next - begin) + (id - begin));
}

}  // namespace parbuckle
