// Second pass: what is in memory when. Uses of a span become visits; each visit is an allocation with the transfers that
// fill it and save it. Nothing has an address yet.
//
// A visit is a maximal run of uses in consecutive unit visits of the chain: a weight used by the last unit's forward
// and backward stays put at the turn. Where the choice is by_stage, a unit's stages count as units here. A span that `choice` keeps in memory between visits has one visit for all of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/plan.h"
#include "engine/base/workload.h"
#include "offload/plan/order.h"

namespace parbuckle {

struct Fetch {
  BlockId block;
  std::int64_t offset = 0;  // bytes into the visit's memory
  std::int64_t bytes = 0;
  std::int32_t need = 0;  // first task that uses it
};

struct Drain {
  BlockId block;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::int32_t after = 0;  // the task that changes it last
};

/// Tasks first..last, both included.
struct TaskRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

struct Visit {
  SpanId span;              // invalid: scratch
  std::int32_t block = -1;  // one block of the span; -1: all of it
  std::int32_t micro_batch = -1;
  Role role = Role::scratch;
  WaitsIn place = WaitsIn::compute;  // where its content waits outside of its visits
  std::int64_t bytes = 0;            // multiple of page_bytes
  bool resident = false;             // held always
  bool crosses = false;  // not persistent, and its content is used at the start of the next step
  // Tasks during which it is in memory. Two ranges where one step's content is used at the start of the next and the
  // memory is free in between (a gradient that waits for its lazy update): {begin..last use}, {first write..end}.
  std::array<TaskRange, 2> held;
  std::int32_t held_count = 1;
  std::vector<Fetch> fetches;
  std::vector<Drain> drains;

  [[nodiscard]] std::span<const TaskRange> ranges() const {
    return {held.data(), static_cast<std::size_t>(held_count)};
  }
};

struct VisitOperand {
  std::int32_t visit = -1;
  std::int64_t offset = 0;
};

struct Schedule {
  std::vector<Visit> visits;
  std::vector<std::vector<VisitOperand>> operands;  // per task, like ChainTask::uses
  std::vector<std::int32_t> scratch;                // per task: its scratch visit, -1 if none
  // Operands and scratch of tasks on the host's lane are left to stage().
};

struct UseAt {
  std::int32_t task = 0;
  std::int32_t use = 0;  // position in ChainTask::uses
  std::int32_t block = -1;
  Access access = Access::read;
  LaneKind lane = LaneKind::compute;
};

/// The uses of every span instance ("object": a span, or a span of one micro-batch) in chain order.
struct UseTable {
  std::vector<std::int32_t>
      unit_visit;  // per task: number of its run of consecutive tasks of one unit (or stage) on the compute lane
  std::vector<std::int32_t> first_object;  // per span, and one past the last
  std::vector<std::vector<UseAt>> uses;    // per object
};

/// by_stage: a stage of a unit counts as a visit of its own (Choice::by_stage).
UseTable collect_uses(const Workload& workload, const std::vector<ChainTask>& chain, bool by_stage);

/// True for spans that never leave memory whatever is chosen: pinned blocks, batches, statistics, key/value caches.
bool always_resident(const Workload& workload, SpanId span);

/// True for spans that the host writes or reads itself around a step: batches, scalars, statistics.
bool is_mirrored(const Workload& workload, SpanId span);

/// Fails only where a task reads a block that nothing wrote (a fault of the workload).
Result<Schedule> schedule(const Workload& workload,
                          const Choice& choice,
                          const std::vector<ChainTask>& chain,
                          const UseTable& uses);

/// Visits of one span under `choice`, without operands: what pinning it would change.
Result<std::vector<Visit>> visits_of_span(const Workload& workload,
                                          const Choice& choice,
                                          const std::vector<ChainTask>& chain,
                                          const UseTable& uses,
                                          SpanId span);

}  // namespace parbuckle
