// What the executor derives from a plan once, so that a step only looks up: which block ranges a task or transfer touches,
// how many events use an allocation, which transfers serve pending updates, and one order in which everything can run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/plan.h"
#include "engine/base/program.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// One block inside one allocation: what has a residency state.
struct Cell {
  AllocationId allocation;
  BlockId block;
  std::int64_t begin = 0;  // bytes into the allocation
  std::int64_t end = 0;
  friend bool operator==(const Cell&, const Cell&) = default;
};

struct CellRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const CellRange&, const CellRange&) = default;
};

/// A task or a transfer, in the order of the serial mode.
struct StepEvent {
  bool is_task = false;
  std::int32_t index = 0;
  friend bool operator==(const StepEvent&, const StepEvent&) = default;
};

struct StepTable {
  std::vector<Cell> cells;
  std::vector<CellRange> allocation_cells;             // per allocation
  std::vector<std::vector<CellRange>> operand_cells;   // per task, per operand
  std::vector<std::vector<AllocationId>> task_ranges;  // per task: its allocations, each once
  std::vector<std::size_t> transfer_cell;              // per transfer: in its allocation
  std::vector<std::size_t> host_cell;  // per transfer over the link: on the host's side
  std::vector<std::int32_t> users;     // per allocation: tasks and transfers that touch it
  std::vector<bool> serves_pending;    // per transfer: its allocation is used by a pending update
  std::vector<StepEvent> order;
};

/// internal_error, naming task or transfer, where the plan does not fit the workload or could never finish.
Result<StepTable> make_step_table(const Plan& plan,
                                  const Workload& workload,
                                  std::span<const Program> programs);

}  // namespace parbuckle
