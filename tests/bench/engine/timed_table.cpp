#include "tests/bench/engine/timed_table.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "engine/graph/op_facts.h"

namespace parbuckle::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::string label_of(const OpShape& op) {
  std::string label(to_string(op.kind));
  switch (op.kind) {
    case OpKind::linear_forward:
    case OpKind::linear_backward_input:
    case OpKind::linear_backward_weight: {
      const bool weight = op.kind == OpKind::linear_backward_weight;
      const Shape& from = op.operands[0];
      const Shape& to = op.operands[weight ? 1 : 2];
      label += " " + std::to_string(from.d1 * from.d2) + (weight ? " x " : " to ") +
               std::to_string(to.d1 * to.d2);
      return label;
    }
    default:  // the other kinds have one shape in a model
      return label;
  }
}

double bytes_of(const OpShape& op, const OpArgs& args) {
  double bytes = 0;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    bytes += static_cast<double>(op.operands[i].elements() * size_of(args.operands[i].dtype));
  }
  return bytes;
}

}  // namespace

double process_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

OpTable TimedTable::table() {
  return {.state = this, .prepare = prepare, .run = run};
}

std::vector<OpTally> TimedTable::sorted() const {
  std::vector<OpTally> all = tallies_;
  std::sort(all.begin(), all.end(), [](const OpTally& a, const OpTally& b) {
    return a.seconds > b.seconds;
  });
  return all;
}

OpTally& TimedTable::tally_of(const OpShape& op) {
  std::string label = label_of(op);
  const auto found = std::find_if(
      tallies_.begin(), tallies_.end(), [&](const OpTally& t) { return t.label == label; });
  if (found != tallies_.end()) {
    return *found;
  }
  tallies_.push_back({.label = std::move(label)});
  return tallies_.back();
}

Result<std::int64_t> TimedTable::prepare(void* state, const OpShape& op) {
  const OpTable& inner = static_cast<TimedTable*>(state)->inner_;
  return inner.prepare(inner.state, op);
}

Status TimedTable::run(void* state, const OpShape& op, const OpArgs& args) {
  auto& self = *static_cast<TimedTable*>(state);
  OpTally& tally = self.tally_of(op);
  const double cpu = process_cpu_seconds();
  const auto begin = Clock::now();
  const Status status = self.inner_.run(self.inner_.state, op, args);
  tally.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  tally.cpu_seconds += process_cpu_seconds() - cpu;
  tally.flops += flops_of(op);
  tally.bytes += bytes_of(op, args);
  ++tally.calls;
  return status;
}

}  // namespace parbuckle::bench
