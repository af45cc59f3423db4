#include "offload/run/step_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "parbuckle/units.h"

#include "offload/run/arenas.h"

namespace parbuckle {
namespace {

/// The parts of make_step_table, over its three inputs and the table they fill.
class StepTableMaker {
 public:
  StepTableMaker(const Plan& plan, const Workload& workload, std::span<const Program> programs)
      : plan_(plan), workload_(workload), programs_(programs) {}

  Result<StepTable> make() {
    PARBUCKLE_TRY(add_cells());
    PARBUCKLE_TRY(add_tasks());
    PARBUCKLE_TRY(add_transfers());
    PARBUCKLE_TRY(add_order());
    return std::move(table_);
  }

 private:
  Status add_cells();
  Status add_tasks();
  Status add_task(std::size_t index);
  Status check_task(std::size_t index) const;
  Status check_program(std::size_t index, ProgramId id) const;
  Status add_transfers();
  Result<std::size_t> cell_of(BlockId block,
                              AllocationId allocation,
                              std::int64_t offset,
                              const std::string& where) const;
  Status check_transfer(const Transfer& transfer, const std::string& where) const;
  [[nodiscard]] std::vector<bool> used_by_pending() const;
  Status add_order();
  [[nodiscard]] CellRange overlapped(const TaskOperand& operand, std::int64_t bytes) const;
  [[nodiscard]] std::string task_name(std::size_t index) const;
  [[nodiscard]] std::string transfer_name(std::size_t index) const;

  const Plan& plan_;
  const Workload& workload_;
  std::span<const Program> programs_;
  StepTable table_;
};

bool is_link(LaneKind lane) {
  return lane == LaneKind::h2d || lane == LaneKind::d2h;
}

template <class T>
bool in(const std::vector<T>& list, std::int32_t index) {
  return index >= 0 && static_cast<std::size_t>(index) < list.size();
}

std::string StepTableMaker::task_name(std::size_t index) const {
  const Task& task = plan_.tasks[index];
  const std::string family = in(workload_.families, task.family.value)
                                 ? workload_.families[task.family.index()].name
                                 : "?";
  return "plan task " + std::to_string(index) + " (" + std::string(to_string(task.kind)) + ", " +
         family + ")";
}

std::string StepTableMaker::transfer_name(std::size_t index) const {
  const Transfer& transfer = plan_.transfers[index];
  const std::string block = in(workload_.blocks, transfer.block.value)
                                ? workload_.blocks[transfer.block.index()].name
                                : "?";
  return "plan transfer " + std::to_string(index) + " (" + std::string(to_string(transfer.lane)) +
         " of '" + block + "')";
}

Status StepTableMaker::add_cells() {
  for (std::size_t a = 0; a < plan_.allocations.size(); ++a) {
    const Allocation& allocation = plan_.allocations[a];
    if (allocation.offset < 0 || allocation.offset % page_bytes != 0 || allocation.bytes < 0 ||
        allocation.tier == Tier::nvme ||
        allocation.offset + allocation.bytes > arena_bytes(plan_, allocation.tier)) {
      return internal_error("plan allocation " + std::to_string(a) + " ('" + allocation.what +
                            "'): " + std::to_string(allocation.bytes) + " bytes at " +
                            std::to_string(allocation.offset) + " are not inside the arena");
    }
    const std::size_t first = table_.cells.size();
    if (allocation.span.valid()) {
      const Span& span = workload_.spans[allocation.span.index()];
      const bool whole = allocation.block < 0;
      for (std::size_t b = 0; b < span.blocks.size(); ++b) {
        if (!whole && static_cast<std::size_t>(allocation.block) != b) {
          continue;
        }
        const Block& block = workload_.blocks[span.blocks[b].index()];
        const std::int64_t begin = whole ? block.span_offset : 0;
        const std::int64_t size = block_bytes(block, workload_.shapes.back());
        table_.cells.push_back({AllocationId(a), span.blocks[b], begin, begin + size});
      }
    }
    table_.allocation_cells.push_back({first, table_.cells.size()});
  }
  table_.users.assign(plan_.allocations.size(), 0);
  return {};
}

Status StepTableMaker::add_tasks() {
  for (std::size_t t = 0; t < plan_.tasks.size(); ++t) {
    PARBUCKLE_TRY(check_task(t));
    PARBUCKLE_TRY(add_task(t));
  }
  return {};
}

Status StepTableMaker::check_task(std::size_t index) const {
  const Task& task = plan_.tasks[index];
  if (!in(workload_.families, task.family.value)) {
    return internal_error(task_name(index) + ": names no family");
  }
  const Family& family = workload_.families[task.family.index()];
  const bool by_shape = family.programs.size() > 1;
  if (family.programs.empty() || (by_shape && family.programs.size() != workload_.shapes.size()) ||
      (by_shape && task.micro_batch < 0) || task.micro_batch >= workload_.micro_batches) {
    return internal_error(task_name(index) + ": micro-batch " + std::to_string(task.micro_batch) +
                          " does not fit the family's " + std::to_string(family.programs.size()) +
                          " programs");
  }
  if (task.scratch_offset < 0 || task.scratch_bytes < 0 ||
      task.scratch_offset + task.scratch_bytes > arena_bytes(plan_, tier_of(plan_, task))) {
    return internal_error(task_name(index) + ": its scratch is outside the arena");
  }
  if (task.after_task >= static_cast<std::int32_t>(plan_.tasks.size())) {
    return internal_error(task_name(index) + ": waits for a task that does not exist");
  }
  for (const TransferId wait : task.waits) {
    if (!in(plan_.transfers, wait.value)) {
      return internal_error(task_name(index) + ": waits for a transfer that does not exist");
    }
  }
  for (const ProgramId id : family.programs) {
    PARBUCKLE_TRY(check_program(index, id));
  }
  return {};
}

Status StepTableMaker::check_program(std::size_t index, ProgramId id) const {
  const Task& task = plan_.tasks[index];
  if (!id.valid() || id.index() >= programs_.size()) {
    return internal_error(task_name(index) + ": its family names a program that does not exist");
  }
  const Program& program = programs_[id.index()];
  if (program.region_bytes.size() != task.operands.size() ||
      program.scratch_bytes > task.scratch_bytes) {
    return internal_error(task_name(index) + ": has " + std::to_string(task.operands.size()) +
                          " operands and " + std::to_string(task.scratch_bytes) +
                          " bytes of scratch, its program needs " +
                          std::to_string(program.region_bytes.size()) + " and " +
                          std::to_string(program.scratch_bytes));
  }
  for (std::size_t i = 0; i < task.operands.size(); ++i) {
    const TaskOperand& operand = task.operands[i];
    if (!in(plan_.allocations, operand.allocation.value) || operand.offset < 0 ||
        operand.offset + program.region_bytes[i] >
            plan_.allocations[operand.allocation.index()].bytes) {
      return internal_error(task_name(index) + ": operand " + std::to_string(i) + " needs " +
                            std::to_string(program.region_bytes[i]) +
                            " bytes, its allocation does not hold them");
    }
  }
  return {};
}

CellRange StepTableMaker::overlapped(const TaskOperand& operand, std::int64_t bytes) const {
  CellRange range = table_.allocation_cells[operand.allocation.index()];
  while (range.begin < range.end && table_.cells[range.begin].end <= operand.offset) {
    ++range.begin;
  }
  while (range.begin < range.end && table_.cells[range.end - 1].begin >= operand.offset + bytes) {
    --range.end;
  }
  return range;
}

Status StepTableMaker::add_task(std::size_t index) {
  const Task& task = plan_.tasks[index];
  const Family& family = workload_.families[task.family.index()];
  const Program& largest = programs_[family.programs.back().index()];
  std::vector<CellRange> cells;
  std::vector<AllocationId> ranges;
  for (std::size_t i = 0; i < task.operands.size(); ++i) {
    const TaskOperand& operand = task.operands[i];
    cells.push_back(overlapped(operand, largest.region_bytes[i]));
    if (std::find(ranges.begin(), ranges.end(), operand.allocation) == ranges.end()) {
      ranges.push_back(operand.allocation);
      ++table_.users[operand.allocation.index()];
    }
  }
  table_.operand_cells.push_back(std::move(cells));
  table_.task_ranges.push_back(std::move(ranges));
  return {};
}

Result<std::size_t> StepTableMaker::cell_of(BlockId block,
                                            AllocationId allocation,
                                            std::int64_t offset,
                                            const std::string& where) const {
  if (!in(workload_.blocks, block.value) || !in(plan_.allocations, allocation.value)) {
    return internal_error(where + ": names no block or no allocation");
  }
  const CellRange range = table_.allocation_cells[allocation.index()];
  for (std::size_t cell = range.begin; cell < range.end; ++cell) {
    if (table_.cells[cell].block == block && table_.cells[cell].begin == offset) {
      return cell;
    }
  }
  return internal_error(where + ": its block does not stand at byte " + std::to_string(offset) +
                        " of allocation '" + plan_.allocations[allocation.index()].what + "'");
}

// Allocations that pending updates use, and the staging ranges through which those come and go.
std::vector<bool> StepTableMaker::used_by_pending() const {
  std::vector<bool> pending(plan_.allocations.size(), false);
  for (const Task& task : plan_.tasks) {
    if (task.kind == TaskKind::backward) {
      break;
    }
    if (task.kind == TaskKind::update) {
      for (const TaskOperand& operand : task.operands) {
        pending[operand.allocation.index()] = true;
      }
    }
  }
  for (const Transfer& transfer : plan_.transfers) {
    if (transfer.host.valid() && in(plan_.allocations, transfer.host.value) &&
        in(plan_.allocations, transfer.allocation.value) && pending[transfer.allocation.index()]) {
      pending[transfer.host.index()] = true;
    }
  }
  return pending;
}

Status StepTableMaker::check_transfer(const Transfer& transfer, const std::string& where) const {
  const bool link = is_link(transfer.lane);
  const Allocation& allocation = plan_.allocations[transfer.allocation.index()];
  const std::int64_t least =
      block_bytes(workload_.blocks[transfer.block.index()], workload_.shapes.back());
  if (transfer.bytes != round_up(least, page_bytes) ||
      allocation.offset + transfer.offset + transfer.bytes >
          round_up(arena_bytes(plan_, allocation.tier), page_bytes)) {
    return internal_error(where + ": moves " + std::to_string(transfer.bytes) +
                          " bytes, its block has " + std::to_string(least));
  }
  if (allocation.tier != (link ? Tier::device : Tier::host) ||
      (link && plan_.allocations[transfer.host.index()].tier != Tier::host)) {
    return internal_error(where + ": its ends are not in the tiers that its lane joins");
  }
  const auto tasks = static_cast<std::int32_t>(plan_.tasks.size());
  if (transfer.after_task >= tasks || transfer.after_host_task >= tasks ||
      transfer.micro_batch >= workload_.micro_batches ||
      !std::all_of(transfer.after_transfers.begin(),
                   transfer.after_transfers.end(),
                   [this](TransferId id) { return in(plan_.transfers, id.value); })) {
    return internal_error(where + ": waits for something that does not exist");
  }
  return {};
}

Status StepTableMaker::add_transfers() {
  const std::vector<bool> pending = used_by_pending();
  for (std::size_t t = 0; t < plan_.transfers.size(); ++t) {
    const Transfer& transfer = plan_.transfers[t];
    const std::string where = transfer_name(t);
    const bool link = is_link(transfer.lane);
    if (runs_tasks(transfer.lane) || (link && plan_.device_arena_bytes == 0)) {
      return internal_error(where + ": this device has no such lane");
    }
    PARBUCKLE_ASSIGN(const std::size_t cell,
                     cell_of(transfer.block, transfer.allocation, transfer.offset, where));
    std::size_t host_cell = cell;
    if (link) {
      PARBUCKLE_ASSIGN(host_cell,
                       cell_of(transfer.block, transfer.host, transfer.host_offset, where));
      ++table_.users[transfer.host.index()];
    }
    PARBUCKLE_TRY(check_transfer(transfer, where));
    table_.transfer_cell.push_back(cell);
    table_.host_cell.push_back(host_cell);
    table_.serves_pending.push_back(pending[transfer.allocation.index()]);
    ++table_.users[transfer.allocation.index()];
  }
  return {};
}

/// Walks the plan as its event rules say, transfers as early as they can, each event taking no time.
Status StepTableMaker::add_order() {
  std::vector<bool> ended(plan_.transfers.size(), false);
  const auto have_ended = [&ended](const std::vector<TransferId>& ids) {
    return std::all_of(
        ids.begin(), ids.end(), [&ended](TransferId id) { return ended[id.index()]; });
  };
  std::vector<std::vector<std::size_t>> lanes(lane_kind_count);
  for (std::size_t t = 0; t < plan_.transfers.size(); ++t) {
    lanes[static_cast<std::size_t>(plan_.transfers[t].lane)].push_back(t);
  }
  for (std::size_t t = 0; t < plan_.tasks.size(); ++t) {
    lanes[static_cast<std::size_t>(plan_.tasks[t].lane)].push_back(t);
  }
  std::vector<std::size_t> next(lanes.size(), 0);
  std::vector<bool> task_ended(plan_.tasks.size(), false);
  const auto has_ended = [&task_ended](std::int32_t task) {
    return task < 0 || task_ended[static_cast<std::size_t>(task)];
  };
  const auto step_lane = [&](std::size_t lane) {
    if (runs_tasks(static_cast<LaneKind>(lane)) || next[lane] == lanes[lane].size()) {
      return false;
    }
    const std::size_t index = lanes[lane][next[lane]];
    const Transfer& transfer = plan_.transfers[index];
    if (!has_ended(transfer.after_task) || !has_ended(transfer.after_host_task) ||
        !have_ended(transfer.after_transfers)) {
      return false;
    }
    ended[index] = true;
    ++next[lane];
    table_.order.push_back({false, static_cast<std::int32_t>(index)});
    return true;
  };
  const auto step_task = [&] {
    for (const LaneKind kind : {LaneKind::compute, LaneKind::host_compute}) {
      const auto lane = static_cast<std::size_t>(kind);
      if (next[lane] == lanes[lane].size()) {
        continue;
      }
      const std::size_t index = lanes[lane][next[lane]];
      const Task& task = plan_.tasks[index];
      if (has_ended(task.after_task) && have_ended(task.waits)) {
        task_ended[index] = true;
        ++next[lane];
        table_.order.push_back({true, static_cast<std::int32_t>(index)});
        return true;
      }
    }
    return false;
  };
  const auto step_any_lane = [&] {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      if (step_lane(lane)) {
        return true;
      }
    }
    return false;
  };
  while (step_any_lane() || step_task()) {
  }
  if (table_.order.size() != plan_.tasks.size() + plan_.transfers.size()) {
    const auto stuck = static_cast<std::size_t>(
        std::find(task_ended.begin(), task_ended.end(), false) - task_ended.begin());
    return internal_error(
        "plan cannot finish: " +
        (stuck < plan_.tasks.size() ? task_name(stuck) : "a transfer after the last task") +
        " waits for ever");
  }
  return {};
}

}  // namespace

Result<StepTable> make_step_table(const Plan& plan,
                                  const Workload& workload,
                                  std::span<const Program> programs) {
  return StepTableMaker(plan, workload, programs).make();
}

}  // namespace parbuckle
