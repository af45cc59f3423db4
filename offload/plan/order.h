// First pass of planning: the linear chain of compute tasks of one step, every use bound to its micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle {

struct ChainUse {
  SpanId span;
  std::int32_t block = -1;        // position in Span::blocks; -1: the whole span
  std::int32_t micro_batch = -1;  // -1: the span exists once
  Access access = Access::read;
  friend bool operator==(const ChainUse&, const ChainUse&) = default;
};

/// A *stage* of a unit is one template of its forward or backward with what begins and ends the gradients it changes: a table
/// cut into parts has a stage for each part.
struct ChainTask {
  TaskKind kind = TaskKind::forward;
  LaneKind lane = LaneKind::compute;  // or host_compute
  FamilyId family;
  UnitId unit;                    // invalid for begin, turn, finish
  std::int32_t stage = 0;         // of the unit; an update's is that of the task it stands with
  std::int32_t micro_batch = -1;  // -1: the step's
  std::vector<ChainUse> uses;
  friend bool operator==(const ChainTask&, const ChainTask&) = default;
};

/// The tasks of one step in steady state. Groups of `choice.group` micro-batches go forward and backward one after the
/// other, so gradients accumulate in ascending micro-batch order whatever the group. Updates stand
///  - window after: at the end;
///  - window lazy: before the first use of their weight, or the first change of their gradient where that comes first (they
///    apply the previous step's gradient);
///  - window fused: after the stage of the unit that finishes their gradient, if the backward reads the weight
///    there for the last time; otherwise (embedding tables, whose backward never reads them) as in lazy.
/// gradient_begin tasks stand before the first stage that uses what they write, gradient_end tasks behind the last stage that
/// changes what they use, so that the gradient of one part of a table need not wait for the other parts.
/// Phases other than train have no backward and no updates. Updates of `choice.host_updates` are on the host's lane, which
/// keeps their order and waits for nothing else that stands between them.
/// REQUIRES: check_workload(workload).ok(), choice made for this workload.
std::vector<ChainTask> expand(const Workload& workload, const Choice& choice);

}  // namespace parbuckle
