#include "offload/run/executor.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {

Executor::Executor(const ExecutorParts& parts, const ExecutorOptions& options)
    : parts_(parts), options_(options), progress_(parts.plan->transfers.size()) {
}

Result<std::unique_ptr<Executor>> Executor::create(const ExecutorParts& parts,
                                                   const ExecutorOptions& options) {
  std::unique_ptr<Executor> executor(new Executor(parts, options));  // private constructor
  PARBUCKLE_TRY(executor->check_parts());
  PARBUCKLE_ASSIGN(executor->table_, make_step_table(*parts.plan, *parts.workload, parts.programs));
  PARBUCKLE_ASSIGN(
      executor->keeper_,
      RangeKeeper::create(
          *parts.plan, *parts.workload, executor->table_, parts.arena->data(), options.poison));
  PARBUCKLE_TRY(executor->set_up_homes());
  PARBUCKLE_TRY(executor->set_up_lanes());
  PARBUCKLE_TRY(executor->set_up_compute());
  return executor;
}

Status Executor::check_parts() const {
  const Plan& plan = *parts_.plan;
  if (round_up(plan.host_arena_bytes, page_bytes) > round_up(parts_.arena->bytes(), page_bytes)) {
    return internal_error("the plan needs a host arena of " + format_size(plan.host_arena_bytes) +
                          ", it has " + format_size(parts_.arena->bytes()));
  }
  if (!parts_.device->shares_host_memory()) {
    return unsupported("device " + std::string(parts_.device->name()) +
                       ": only devices that compute in host memory are supported");
  }
  if (parts_.workload->shapes.empty()) {
    return internal_error("workload '" + parts_.workload->name + "' has no shapes");
  }
  const bool uses_drive = !plan.transfers.empty() ||
                          std::any_of(plan.homes.begin(), plan.homes.end(), [](const Home& home) {
                            return home.tier == Tier::nvme;
                          });
  if (uses_drive && parts_.pool == nullptr) {
    return internal_error("the plan keeps blocks on nvme and there is no pool");
  }
  return {};
}

Status Executor::set_up_homes() {
  std::vector<BlockPlace> places(parts_.workload->blocks.size());
  for (const Home& home : parts_.plan->homes) {
    BlockPlace& place = places[home.block.index()];
    if (home.tier == Tier::nvme) {
      PARBUCKLE_ASSIGN(place.extent, extent_of(home.block, -1));
      continue;
    }
    const Block& block = parts_.workload->blocks[home.block.index()];
    place.address = host_address(home.allocation) + home.offset;
    if (block.starts_zero) {
      std::memset(place.address, 0, static_cast<std::size_t>(block.bytes));
    }
  }
  access_ = std::make_unique<BlockAccess>(*parts_.workload, parts_.pool, std::move(places));
  return {};
}

/// Persistent blocks are known to the pool by name alone, so that the workloads of training and evaluation find the
/// same bytes; what lives inside a step is named after its workload.
Result<ExtentId> Executor::extent_of(BlockId id, std::int32_t micro_batch) {
  const Block& block = parts_.workload->blocks[id.index()];
  std::string name = block.persistent ? block.name : parts_.workload->name + "/" + block.name;
  if (micro_batch >= 0) {
    name += "#" + std::to_string(micro_batch);
  }
  return parts_.pool->extent(
      name, block_bytes(block, parts_.workload->shapes.back()), block.starts_zero);
}

Executor::LaneSlot& Executor::lane(LaneKind kind) {
  return lanes_[kind == LaneKind::nvme_read ? 0 : 1];
}

Status Executor::set_up_lanes() {
  const Plan& plan = *parts_.plan;
  for (std::size_t t = 0; t < plan.transfers.size(); ++t) {
    const Transfer& transfer = plan.transfers[t];
    LaneSlot& slot = lane(transfer.lane);
    if (slot.runner == nullptr) {
      PARBUCKLE_ASSIGN(slot.runner, LaneRunner::create(transfer.lane, *parts_.pool));
    }
    PARBUCKLE_ASSIGN(const ExtentId extent, extent_of(transfer.block, transfer.micro_batch));
    item_of_transfer_.emplace_back(&slot - lanes_.data(), slot.items.size());
    slot.items.push_back({.transfer = TransferId(t),
                          .extent = extent,
                          .role = parts_.workload->blocks[transfer.block.index()].role,
                          .data = host_address(transfer.allocation) + transfer.offset,
                          .bytes = transfer.bytes,
                          .after_task = transfer.after_task,
                          .after_transfers = transfer.after_transfers});
  }
  return {};
}

Status Executor::set_up_compute() {
  const Plan& plan = *parts_.plan;
  std::vector<bool> used(parts_.programs.size(), false);
  bool seen_update = false;
  bool seen_backward = false;
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    TaskSlot slot{.executor = this, .index = t};
    seen_backward = seen_backward || task.kind == TaskKind::backward;
    if (task.kind == TaskKind::update) {
      slot.pending = !seen_backward;
      slot.first_update = seen_backward && !std::exchange(seen_update, true);
    }
    for (const TaskOperand& operand : task.operands) {
      slot.regions.push_back(host_address(operand.allocation) + operand.offset);
    }
    tasks_.push_back(std::move(slot));
    for (const ProgramId program : parts_.workload->families[task.family.index()].programs) {
      used[program.index()] = true;
    }
  }
  timeline_.tasks.resize(plan.tasks.size());
  timeline_.transfers.resize(plan.transfers.size());
  PARBUCKLE_ASSIGN(stream_, parts_.device->create_stream());
  PARBUCKLE_ASSIGN(step_end_, parts_.device->create_event());
  PARBUCKLE_ASSIGN(ProgramRunner runner,
                   ProgramRunner::create(parts_.programs, used, parts_.op_table, *stream_));
  programs_ = std::make_unique<ProgramRunner>(std::move(runner));
  return {};
}

Status Executor::run_step(const StepInput& input, StepTrace& trace) {
  PARBUCKLE_TRY(failure_);
  PARBUCKLE_TRY(begin_step(input));
  if (options_.serial) {
    run_serial();
  } else {
    run_overlapped();
  }
  failure_ = progress_.status();
  PARBUCKLE_TRY(failure_);
  failure_ = keeper_->end_step();
  PARBUCKLE_TRY(failure_);
  timeline_.step_s = now();
  trace.timeline = timeline_;
  trace.arena_peak_bytes = keeper_->peak_bytes();
  fill_bytes(trace);
  return {};
}

Status Executor::begin_step(const StepInput& input) {
  PARBUCKLE_TRY(access_->flush());
  const Workload& workload = *parts_.workload;
  if (input.shapes.size() != static_cast<std::size_t>(workload.micro_batches)) {
    return internal_error("step with " + std::to_string(input.shapes.size()) +
                          " micro-batches, the workload has " +
                          std::to_string(workload.micro_batches));
  }
  for (const std::int32_t shape : input.shapes) {
    if (shape < 0 || static_cast<std::size_t>(shape) >= workload.shapes.size()) {
      return internal_error("step with shape " + std::to_string(shape) + ", the workload has " +
                            std::to_string(workload.shapes.size()));
    }
  }
  for (LaneSlot& slot : lanes_) {
    for (LaneItem& item : slot.items) {
      const Transfer& transfer = parts_.plan->transfers[item.transfer.index()];
      const Block& block = workload.blocks[transfer.block.index()];
      const bool by_shape = block.per_micro_batch && transfer.micro_batch >= 0;
      const std::size_t shape =
          by_shape ? static_cast<std::size_t>(
                         input.shapes[static_cast<std::size_t>(transfer.micro_batch)])
                   : workload.shapes.size() - 1;
      item.bytes = round_up(block_bytes(block, workload.shapes[shape]), page_bytes);
      item.skipped =
          input.mode == StepMode::pending_only && !table_.serves_pending[item.transfer.index()];
      item.allow_unwritten = input.mode == StepMode::without_pending;
    }
    slot.before = slot.runner ? slot.runner->bytes() : RoleCounters{};
  }
  input_ = &input;
  updates_apply_ = true;
  keeper_->begin_step();
  progress_.begin_step();
  step_begin_ = Clock::now();
  return {};
}

void Executor::run_overlapped() {
  for (LaneSlot& slot : lanes_) {
    if (slot.runner) {
      slot.runner->start(slot.items, progress_, *this);
    }
  }
  Status status;
  for (std::size_t t = 0; t < tasks_.size() && status.ok(); ++t) {
    status = stream_->enqueue(
        [](void* context) {
          auto* const slot = static_cast<TaskSlot*>(context);
          slot->executor->run_task(*slot);
        },
        &tasks_[t]);
  }
  if (!status.ok()) {
    progress_.fail(std::move(status));
  }
  if (stream_->record(*step_end_).ok()) {
    status = step_end_->synchronise();
  }
  for (LaneSlot& slot : lanes_) {
    if (slot.runner) {
      slot.runner->finish();
    }
  }
}

void Executor::run_serial() {
  for (const StepEvent event : table_.order) {
    const auto index = static_cast<std::size_t>(event.index);
    if (event.is_task) {
      const Status enqueued = stream_->enqueue(
          [](void* context) {
            auto* const slot = static_cast<TaskSlot*>(context);
            slot->executor->run_task(*slot);
          },
          &tasks_[index]);
      if (!enqueued.ok() || !stream_->synchronise().ok()) {
        progress_.fail(enqueued);
      }
    } else {
      const auto [lane_index, position] = item_of_transfer_[index];
      LaneSlot& slot = lanes_[lane_index];
      slot.runner->run(slot.items[position], progress_, *this);
    }
    if (!progress_.status().ok()) {
      return;
    }
  }
}

void Executor::run_task(TaskSlot& slot) {
  if (!progress_.await(-1, parts_.plan->tasks[slot.index].waits)) {
    return;
  }
  timeline_.tasks[slot.index].begin_s = now();
  Status status = skips(slot) ? keeper_->task_skipped(slot.index) : perform(slot);
  timeline_.tasks[slot.index].end_s = now();
  if (status.ok()) {
    progress_.task_ended();
  } else {
    progress_.fail(std::move(status));
  }
}

bool Executor::skips(const TaskSlot& slot) {
  if (slot.pending) {
    return input_->mode == StepMode::without_pending;
  }
  if (input_->mode == StepMode::pending_only) {
    return true;
  }
  if (slot.first_update && input_->apply_updates) {
    updates_apply_ = input_->apply_updates();
  }
  return parts_.plan->tasks[slot.index].kind == TaskKind::update && !updates_apply_;
}

Status Executor::perform(TaskSlot& slot) {
  const Task& task = parts_.plan->tasks[slot.index];
  const Family& family = parts_.workload->families[task.family.index()];
  const std::size_t program =
      family.programs.size() == 1
          ? 0
          : static_cast<std::size_t>(input_->shapes[static_cast<std::size_t>(task.micro_batch)]);
  PARBUCKLE_TRY(keeper_->task_begins(slot.index));
  PARBUCKLE_TRY(programs_->run(
      family.programs[program], slot.regions, parts_.arena->data() + task.scratch_offset));
  return keeper_->task_ends(slot.index);
}

Status Executor::transfer_begins(TransferId transfer, bool skipped) {
  timeline_.transfers[transfer.index()].begin_s = now();
  return skipped ? Status() : keeper_->transfer_begins(transfer.index());
}

Status Executor::transfer_ends(TransferId transfer, bool skipped) {
  timeline_.transfers[transfer.index()].end_s = now();
  return skipped ? keeper_->transfer_skipped(transfer.index())
                 : keeper_->transfer_ends(transfer.index());
}

double Executor::now() const {
  return std::chrono::duration<double>(Clock::now() - step_begin_).count();
}

void Executor::fill_bytes(StepTrace& trace) const {
  trace.bytes.clear();
  for (int r = 0; r < role_count; ++r) {
    const auto index = static_cast<std::size_t>(r);
    const auto moved = [&](const LaneSlot& slot) {
      return slot.runner ? slot.runner->bytes()[index] - slot.before[index] : 0;
    };
    RoleBytes row{
        .role = static_cast<Role>(r), .read = moved(lanes_[0]), .written = moved(lanes_[1])};
    for (const RoleBytes& planned : parts_.plan->bytes) {
      if (planned.role == row.role) {
        row.resident = planned.resident;
        row.stored = planned.stored;
      }
    }
    if (row != RoleBytes{.role = row.role}) {
      trace.bytes.push_back(row);
    }
  }
}

Result<std::span<std::byte>> Executor::host_block(std::string_view name, std::int32_t micro_batch) {
  for (std::size_t cell = 0; cell < table_.cells.size(); ++cell) {
    const Cell& at = table_.cells[cell];
    const Allocation& allocation = parts_.plan->allocations[at.allocation.index()];
    if (allocation.resident && allocation.micro_batch == micro_batch &&
        parts_.workload->blocks[at.block.index()].name == name) {
      return std::span<std::byte>(host_address(at.allocation) + at.begin,
                                  static_cast<std::size_t>(at.end - at.begin));
    }
  }
  return Status(Code::not_found,
                "block '" + std::string(name) + "'" +
                    (micro_batch >= 0 ? " of micro-batch " + std::to_string(micro_batch) : "") +
                    " does not stay in host memory in this plan");
}

std::byte* Executor::host_address(AllocationId allocation) const {
  return parts_.arena->data() + parts_.plan->allocations[allocation.index()].offset;
}

Status Executor::read_block(BlockId block, std::int64_t offset, std::span<std::byte> to) {
  return access_->read(block, offset, to);
}

Status Executor::write_block(BlockId block, std::int64_t offset, std::span<const std::byte> from) {
  return access_->write(block, offset, from);
}

Status Executor::finish_writes() {
  return access_->flush();
}

}  // namespace parbuckle
