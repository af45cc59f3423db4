#include "offload/run/range_keeper.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

std::vector<std::string_view> cell_names(const Workload& workload, const StepTable& table) {
  std::vector<std::string_view> names;
  names.reserve(table.cells.size());
  for (const Cell& cell : table.cells) {
    names.emplace_back(workload.blocks[cell.block.index()].name);
  }
  return names;
}

/// What tasks and transfers of a step use and nothing holds when it begins. A range that crosses from step to step may share
/// its bytes with others that come after its last user: those are not free yet.
std::vector<ByteRange> free_at_begin(const Plan& plan) {
  std::vector<ByteRange> held;
  for (const Allocation& allocation : plan.allocations) {
    if (allocation.resident) {
      held.push_back({allocation.offset, allocation.offset + allocation.bytes});
    }
  }
  std::ranges::sort(held, {}, &ByteRange::begin);
  std::vector<ByteRange> free;
  for (const Allocation& allocation : plan.allocations) {
    if (allocation.resident) {
      continue;
    }
    std::int64_t begin = allocation.offset;
    const std::int64_t end = allocation.offset + allocation.bytes;
    for (const ByteRange& range : held) {
      if (begin < std::min(end, range.begin)) {
        free.push_back({begin, std::min(end, range.begin)});
      }
      begin = std::max(begin, range.end);
    }
    if (begin < end) {
      free.push_back({begin, end});
    }
  }
  return free;
}

}  // namespace

RangeKeeper::RangeKeeper(const Plan& plan,
                         const Workload& workload,
                         const StepTable& table,
                         std::byte* arena,
                         bool poison)
    : plan_(plan),
      table_(table),
      arena_(arena),
      poison_(poison),
      residency_(cell_names(workload, table)),
      held_(plan.allocations.size()),
      users_left_(plan.allocations.size()) {
}

Result<std::unique_ptr<RangeKeeper>> RangeKeeper::create(const Plan& plan,
                                                         const Workload& workload,
                                                         const StepTable& table,
                                                         std::byte* arena,
                                                         bool poison) {
  std::unique_ptr<RangeKeeper> keeper(new RangeKeeper(plan, workload, table, arena, poison));
  if (poison) {
    keeper->free_at_begin_ = free_at_begin(plan);
  }
  for (std::size_t a = 0; a < plan.allocations.size(); ++a) {
    if (!plan.allocations[a].resident) {
      continue;
    }
    PARBUCKLE_TRY(keeper->hold(AllocationId(a)));
    const CellRange cells = table.allocation_cells[a];
    for (std::size_t cell = cells.begin; cell < cells.end; ++cell) {
      PARBUCKLE_TRY(keeper->reserve_cell(cell));
      PARBUCKLE_TRY(keeper->residency_.apply(cell, ResidencyEvent::write));
    }
  }
  return keeper;
}

void RangeKeeper::begin_step() {
  peak_bytes_ = 0;
  for (std::size_t a = 0; a < plan_.allocations.size(); ++a) {
    const Allocation& allocation = plan_.allocations[a];
    users_left_[a] = table_.users[a];
    if (allocation.resident) {
      note_peak(allocation.offset + allocation.bytes);
    }
  }
  for (const ByteRange& range : free_at_begin_) {
    poison(range.begin, range.end - range.begin);
  }
}

Status RangeKeeper::task_begins(std::size_t index) {
  const Task& task = plan_.tasks[index];
  for (const AllocationId id : table_.task_ranges[index]) {
    PARBUCKLE_TRY(hold(id));
  }
  for (std::size_t i = 0; i < task.operands.size(); ++i) {
    const CellRange cells = table_.operand_cells[index][i];
    for (std::size_t cell = cells.begin; cell < cells.end; ++cell) {
      const Access access = task.operands[i].access;
      PARBUCKLE_TRY(reserve_cell(cell));
      if (access != Access::write) {
        PARBUCKLE_TRY(residency_.readable(cell));
      }
      if (access != Access::read) {
        PARBUCKLE_TRY(residency_.apply(cell, ResidencyEvent::write));
      }
    }
  }
  poison(task.scratch_offset, task.scratch_bytes);
  note_peak(task.scratch_offset + task.scratch_bytes);
  return {};
}

Status RangeKeeper::task_ends(std::size_t index) {
  return task_skipped(index);
}

Status RangeKeeper::task_skipped(std::size_t index) {
  for (const AllocationId id : table_.task_ranges[index]) {
    PARBUCKLE_TRY(used(id));
  }
  return {};
}

Status RangeKeeper::transfer_begins(std::size_t index) {
  const Transfer& transfer = plan_.transfers[index];
  const std::size_t cell = table_.transfer_cell[index];
  PARBUCKLE_TRY(hold(transfer.allocation));
  PARBUCKLE_TRY(reserve_cell(cell));
  const bool fills = transfer.lane == LaneKind::nvme_read;
  return residency_.apply(cell, fills ? ResidencyEvent::fill_begin : ResidencyEvent::drain_begin);
}

Status RangeKeeper::transfer_ends(std::size_t index) {
  const Transfer& transfer = plan_.transfers[index];
  const bool fills = transfer.lane == LaneKind::nvme_read;
  PARBUCKLE_TRY(residency_.apply(table_.transfer_cell[index],
                                 fills ? ResidencyEvent::fill_end : ResidencyEvent::drain_end));
  return used(transfer.allocation);
}

Status RangeKeeper::transfer_skipped(std::size_t index) {
  return used(plan_.transfers[index].allocation);
}

Status RangeKeeper::hold(AllocationId id) {
  const Allocation& allocation = plan_.allocations[id.index()];
  const std::lock_guard lock(held_mutex_);
  if (!held_[id.index()].held()) {
    PARBUCKLE_ASSIGN(held_[id.index()],
                     ledger_.reserve(allocation.tier, allocation.role, allocation.bytes));
    note_peak(allocation.offset + allocation.bytes);
  }
  return {};
}

Status RangeKeeper::reserve_cell(std::size_t cell) {
  return residency_.state(cell) == ResidencyState::absent
             ? residency_.apply(cell, ResidencyEvent::reserve)
             : Status();
}

Status RangeKeeper::used(AllocationId id) {
  const bool last = users_left_[id.index()].fetch_sub(1, std::memory_order_acq_rel) == 1;
  return last && !plan_.allocations[id.index()].resident ? release(id) : Status();
}

Status RangeKeeper::release(AllocationId id) {
  const CellRange cells = table_.allocation_cells[id.index()];
  for (std::size_t cell = cells.begin; cell < cells.end; ++cell) {
    if (residency_.state(cell) != ResidencyState::absent) {
      PARBUCKLE_TRY(residency_.apply(cell, ResidencyEvent::release));
    }
  }
  const Allocation& allocation = plan_.allocations[id.index()];
  poison(allocation.offset, allocation.bytes);
  const std::lock_guard lock(held_mutex_);
  held_[id.index()] = Reservation();
  return {};
}

Status RangeKeeper::end_step() const {
  for (std::size_t a = 0; a < plan_.allocations.size(); ++a) {
    if (!plan_.allocations[a].resident && held_[a].held()) {
      return internal_error("allocation '" + plan_.allocations[a].what +
                            "' is still held after the step");
    }
  }
  return {};
}

void RangeKeeper::poison(std::int64_t offset, std::int64_t bytes) {
  if (poison_ && bytes > 0) {
    constexpr int not_a_number = 0xFF;  // NaN as f32, bf16 and f64; -1 as an index
    std::memset(arena_ + offset, not_a_number, static_cast<std::size_t>(bytes));
  }
}

void RangeKeeper::note_peak(std::int64_t end) {
  end = round_up(end, page_bytes);
  std::int64_t seen = peak_bytes_;
  while (seen < end && !peak_bytes_.compare_exchange_weak(seen, end)) {
  }
}

}  // namespace parbuckle
