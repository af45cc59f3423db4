// Every decision of a run as plain data: the same Plan serves planner, simulator, executor and reports.
// The executor walks it and decides nothing.
//
// One Plan is one step in steady state. Its order of events:
//  - `tasks` of one compute lane run in the order in which they stand here: a task starts when the one before it in its lane has
//    ended, task `after_task` of the other lane has ended and its `waits` have completed.
//  - `transfers` of one lane start in the order in which they stand here, and end in that order; up to lane_depth(lane) of
//    them are under way at once. A transfer starts when the one before it in its lane has started, tasks `after_task` and
//    `after_host_task` have ended (-1: at once) and `after_transfers` have ended. Whatever needs the one before it to have
//    *ended* says so there.
//  - Between steps everything is idle: all transfers of a step complete before the next step begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parbuckle/tier.h"

#include "engine/base/hardware.h"
#include "engine/base/ids.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// Transfers of one lane that are under way at once: to a drive, enough that blocks of 1-4 MiB fill its queue. A link is a
/// stream of copies, one at a time.
constexpr std::int32_t lane_depth(LaneKind lane) {
  return lane == LaneKind::nvme_read || lane == LaneKind::nvme_write ? 8 : 1;
}

enum class Window { after, fused, lazy };
std::string_view to_string(Window window);

/// Where something waits between its uses: in the memory that computes, in the host's beside a device with memory of
/// its own, or on the drive.
enum class WaitsIn { compute, host, nvme };
std::string_view to_string(WaitsIn place);

/// What was chosen among the alternatives; equal Choices expand to equal tasks.
struct Choice {
  std::int32_t group = 1;  // micro-batches per visit of a unit: 1 micro-batch-major, M layer-major
  Window window = Window::after;
  std::vector<std::int32_t> alternative;  // per unit, index into Unit::alternatives
  std::vector<WaitsIn> activation;        // per unit: where what it saves waits for the backward
  WaitsIn boundary = WaitsIn::compute;
  WaitsIn gradient = WaitsIn::compute;
  std::vector<SpanId> resident;  // persistent spans whose home is compute memory
  std::vector<SpanId> hosted;    // persistent spans whose home is host memory beside a device
  /// Weights that the host's lane updates, beside a device with memory of its own. Their moments never leave the host's side;
  /// their gradients come up and fresh weights go down. Such a weight has its home on the host's side too; in `resident`
  /// it is fetched once a step.
  std::vector<SpanId> host_updates;
  std::int32_t prefetch = 1;  // visits ahead that are fetched; 0: on demand
  bool by_stage = false;      // a unit of several stages gives memory back after each of them
  friend bool operator==(const Choice&, const Choice&) = default;
};

enum class TaskKind {
  begin,
  update,
  forward,
  turn,
  gradient_begin,
  backward,
  gradient_end,
  finish
};
std::string_view to_string(TaskKind kind);

/// A range of an arena held for one block or span (or one task's scratch) for a while.
struct Allocation {
  std::string what;  // "layer3.mlp.weight", "scratch"
  Role role = Role::scratch;
  SpanId span;                    // invalid for scratch
  std::int32_t block = -1;        // one block of the span; -1: all of it
  std::int32_t micro_batch = -1;  // -1: not per micro-batch
  Tier tier = Tier::host;
  std::int64_t offset = 0;  // in the arena, multiple of page_bytes
  std::int64_t bytes = 0;
  bool resident = false;  // held always, outside the step too
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

struct TaskOperand {
  AllocationId allocation;
  std::int64_t offset = 0;  // bytes into the allocation
  Access access = Access::read;
  friend bool operator==(const TaskOperand&, const TaskOperand&) = default;
};

struct Task {
  TaskKind kind = TaskKind::forward;
  LaneKind lane =
      LaneKind::compute;  // or host_compute: its operands and scratch are in host memory
  FamilyId family;
  UnitId unit;                    // invalid for begin, turn, finish
  std::int32_t micro_batch = -1;  // -1: the step's
  std::vector<TaskOperand> operands;
  std::int64_t scratch_offset = 0;
  std::int64_t scratch_bytes = 0;
  std::int32_t after_task = -1;  // of the other compute lane, earlier in Plan::tasks
  std::vector<TransferId> waits;
  friend bool operator==(const Task&, const Task&) = default;
};

struct Transfer {
  LaneKind lane = LaneKind::nvme_read;
  BlockId block;
  std::int32_t micro_batch = -1;
  AllocationId allocation;  // h2d, d2h: in the device's memory; nvme lanes: in the host's
  std::int64_t offset = 0;  // bytes into the allocation
  AllocationId host;        // h2d, d2h only: the host's side
  std::int64_t host_offset = 0;
  std::int64_t bytes = 0;             // at the largest ShapeKey, rounded up to page_bytes
  std::int32_t after_task = -1;       // of the compute lane
  std::int32_t after_host_task = -1;  // of the host's own
  std::vector<TransferId> after_transfers;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// Where a persistent block lives between its uses.
struct Home {
  BlockId block;
  Tier tier = Tier::host;
  AllocationId allocation;  // device, host: a resident allocation of that tier
  std::int64_t offset = 0;  // device, host: bytes into the allocation
  friend bool operator==(const Home&, const Home&) = default;
};

struct RoleBytes {
  Role role = Role::weight;
  std::int64_t read = 0;      // nvme -> host, per step
  std::int64_t written = 0;   // host -> nvme, per step
  std::int64_t down = 0;      // host -> device, per step
  std::int64_t up = 0;        // device -> host, per step
  std::int64_t resident = 0;  // held in compute memory always
  std::int64_t hosted = 0;    // held in host memory always, beside a device
  std::int64_t stored = 0;    // held on nvme
  friend bool operator==(const RoleBytes&, const RoleBytes&) = default;
};

/// The member of `role` that counts what crosses `lane`. REQUIRES: lane does not run tasks.
std::int64_t& moved(RoleBytes& role, LaneKind lane);

/// One row of the timeline of a plan (predicted) or of a step (measured).
struct Interval {
  double begin_s = 0;
  double end_s = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

struct Timeline {
  std::vector<Interval> tasks;      // like Plan::tasks
  std::vector<Interval> transfers;  // like Plan::transfers
  double step_s = 0;
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

/// What happened in one step, in the timeline type of the plan.
struct StepTrace {
  Timeline timeline;
  std::vector<RoleBytes> bytes;              // moved in this step, by role
  std::int64_t arena_peak_bytes = 0;         // of the host's arena
  std::int64_t device_arena_peak_bytes = 0;  // of the device's
  friend bool operator==(const StepTrace&, const StepTrace&) = default;
};

/// The time no schedule can beat, lane by lane (offload/plan/bound).
struct Bound {
  double compute_s = 0;
  double host_s = 0;  // of the host's own lane beside a device
  double read_s = 0;
  double write_s = 0;
  double duplex_s = 0;
  double down_s = 0;       // host -> device
  double up_s = 0;         // device -> host
  double step_s = 0;       // the largest of them plus fill and drain
  std::string limited_by;  // "compute", "nvme_read", ...
  friend bool operator==(const Bound&, const Bound&) = default;
};

struct Plan {
  std::string workload;
  Phase phase = Phase::train;
  Choice choice;
  Budgets budgets;
  std::string signature_hash;
  std::vector<Allocation> allocations;
  std::vector<Task> tasks;
  std::vector<Transfer> transfers;
  std::vector<Home> homes;              // one per persistent block, in block order
  std::int64_t device_arena_bytes = 0;  // exact size of the device's arena; 0: the host computes
  std::int64_t host_arena_bytes = 0;    // exact size of the host arena
  std::int64_t nvme_pool_bytes = 0;     // what the pool must hold
  std::vector<RoleBytes> bytes;         // per role, sums over a step
  std::int64_t smallest_host_bytes =
      0;  // smallest budget that has a plan for this workload; 0: not searched
  Timeline predicted;
  Bound bound;
  std::vector<std::string> reasons;  // "boundary activations spill: 120 MiB freed for gradients"
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace parbuckle
