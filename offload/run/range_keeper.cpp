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
      held.push_back({allocation.tier, allocation.offset, allocation.offset + allocation.bytes});
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
      if (range.tier != allocation.tier) {
        continue;
      }
      if (begin < std::min(end, range.begin)) {
        free.push_back({allocation.tier, begin, std::min(end, range.begin)});
      }
      begin = std::max(begin, range.end);
    }
    if (begin < end) {
      free.push_back({allocation.tier, begin, end});
    }
  }
  return free;
}

}  // namespace

RangeKeeper::RangeKeeper(const Plan& plan,
                         const Workload& workload,
                         const StepTable& table,
                         const ArenaAddresses& poisoned)
    : plan_(plan),
      table_(table),
      poisoned_(poisoned),
      residency_(cell_names(workload, table)),
      held_(plan.allocations.size()),
      users_left_(plan.allocations.size()) {
}

Result<std::unique_ptr<RangeKeeper>> RangeKeeper::create(const Plan& plan,
                                                         const Workload& workload,
                                                         const StepTable& table,
                                                         const ArenaAddresses& poisoned) {
  std::unique_ptr<RangeKeeper> keeper(new RangeKeeper(plan, workload, table, poisoned));
  if (poisoned.host != nullptr || poisoned.device != nullptr) {
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
  host_peak_ = 0;
  device_peak_ = 0;
  for (std::size_t a = 0; a < plan_.allocations.size(); ++a) {
    const Allocation& allocation = plan_.allocations[a];
    users_left_[a] = table_.users[a];
    if (allocation.resident) {
      note_peak(allocation.tier, allocation.offset + allocation.bytes);
    }
  }
  for (const ByteRange& range : free_at_begin_) {
    poison(range.tier, range.begin, range.end - range.begin);
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
  const Tier tier = tier_of(plan_, task);
  poison(tier, task.scratch_offset, task.scratch_bytes);
  note_peak(tier, task.scratch_offset + task.scratch_bytes);
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

Status RangeKeeper::drain_begins(std::size_t cell) {
  return residency_.apply(cell, ResidencyEvent::drain_begin);
}

Status RangeKeeper::fill_begins(std::size_t cell) {
  PARBUCKLE_TRY(reserve_cell(cell));
  return residency_.apply(cell, ResidencyEvent::fill_begin);
}

// Where a block lives it is filled anew whenever it comes back: its old content ends here.
Status RangeKeeper::refill_begins(std::size_t cell) {
  if (residency_.state(cell) == ResidencyState::live) {
    PARBUCKLE_TRY(residency_.apply(cell, ResidencyEvent::release));
  }
  return fill_begins(cell);
}

Status RangeKeeper::transfer_begins(std::size_t index) {
  const Transfer& transfer = plan_.transfers[index];
  const std::size_t cell = table_.transfer_cell[index];
  const std::size_t host_cell = table_.host_cell[index];
  PARBUCKLE_TRY(hold(transfer.allocation));
  switch (transfer.lane) {
    case LaneKind::nvme_read:
      return fill_begins(cell);
    case LaneKind::nvme_write:
      PARBUCKLE_TRY(reserve_cell(cell));
      return drain_begins(cell);
    case LaneKind::h2d:
      PARBUCKLE_TRY(hold(transfer.host));
      PARBUCKLE_TRY(drain_begins(host_cell));
      return fill_begins(cell);
    case LaneKind::d2h:
      PARBUCKLE_TRY(hold(transfer.host));
      PARBUCKLE_TRY(drain_begins(cell));
      return refill_begins(host_cell);
    case LaneKind::compute:
    case LaneKind::host_compute:
      break;
  }
  return internal_error("a transfer on the compute lane");
}

Status RangeKeeper::transfer_ends(std::size_t index) {
  const Transfer& transfer = plan_.transfers[index];
  const std::size_t cell = table_.transfer_cell[index];
  const std::size_t host_cell = table_.host_cell[index];
  switch (transfer.lane) {
    case LaneKind::nvme_read:
      PARBUCKLE_TRY(residency_.apply(cell, ResidencyEvent::fill_end));
      break;
    case LaneKind::nvme_write:
      PARBUCKLE_TRY(residency_.apply(cell, ResidencyEvent::drain_end));
      break;
    case LaneKind::h2d:
      PARBUCKLE_TRY(residency_.apply(host_cell, ResidencyEvent::drain_end));
      PARBUCKLE_TRY(residency_.apply(cell, ResidencyEvent::fill_end));
      break;
    case LaneKind::d2h:
      PARBUCKLE_TRY(residency_.apply(cell, ResidencyEvent::drain_end));
      PARBUCKLE_TRY(residency_.apply(host_cell, ResidencyEvent::fill_end));
      break;
    case LaneKind::compute:
    case LaneKind::host_compute:
      break;
  }
  return transfer_skipped(index);
}

Status RangeKeeper::transfer_skipped(std::size_t index) {
  const Transfer& transfer = plan_.transfers[index];
  if (transfer.host.valid()) {
    PARBUCKLE_TRY(used(transfer.host));
  }
  return used(transfer.allocation);
}

Status RangeKeeper::hold(AllocationId id) {
  const Allocation& allocation = plan_.allocations[id.index()];
  const std::lock_guard lock(held_mutex_);
  if (!held_[id.index()].held()) {
    PARBUCKLE_ASSIGN(held_[id.index()],
                     ledger_.reserve(allocation.tier, allocation.role, allocation.bytes));
    note_peak(allocation.tier, allocation.offset + allocation.bytes);
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
  poison(allocation.tier, allocation.offset, allocation.bytes);
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

void RangeKeeper::poison(Tier tier, std::int64_t offset, std::int64_t bytes) {
  if (std::byte* const arena = poisoned_.of(tier); arena != nullptr && bytes > 0) {
    constexpr int not_a_number = 0xFF;  // NaN as f32, bf16 and f64; -1 as an index
    std::memset(arena + offset, not_a_number, static_cast<std::size_t>(bytes));
  }
}

void RangeKeeper::note_peak(Tier tier, std::int64_t end) {
  std::atomic<std::int64_t>& peak = tier == Tier::device ? device_peak_ : host_peak_;
  end = round_up(end, page_bytes);
  std::int64_t seen = peak;
  while (seen < end && !peak.compare_exchange_weak(seen, end)) {
  }
}

}  // namespace parbuckle
