#include "offload/run/executor.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {

Executor::Executor(const ExecutorParts& parts, const ExecutorOptions& options)
    : parts_(parts),
      options_(options),
      progress_(parts.plan->tasks.size(), parts.plan->transfers.size()) {
  arenas_.host = parts.arena != nullptr ? parts.arena->data() : nullptr;
  arenas_.device = parts.device_memory != nullptr ? parts.device_memory->data() : nullptr;
}

Result<std::unique_ptr<Executor>> Executor::create(const ExecutorParts& parts,
                                                   const ExecutorOptions& options) {
  std::unique_ptr<Executor> executor(new Executor(parts, options));  // private constructor
  PARBUCKLE_TRY(executor->check_parts());
  PARBUCKLE_ASSIGN(executor->table_, make_step_table(*parts.plan, *parts.workload, parts.programs));
  ArenaAddresses poisoned;
  if (options.poison) {
    poisoned.host = executor->arenas_.host;
    poisoned.device = parts.device->host_addressable() ? executor->arenas_.device : nullptr;
  }
  PARBUCKLE_ASSIGN(executor->keeper_,
                   RangeKeeper::create(*parts.plan, *parts.workload, executor->table_, poisoned));
  PARBUCKLE_TRY(executor->set_up_homes());
  executor->set_up_mirrors();
  PARBUCKLE_TRY(executor->set_up_lanes());
  PARBUCKLE_TRY(executor->set_up_tasks());
  return executor;
}

Status Executor::check_parts() const {
  const Plan& plan = *parts_.plan;
  const std::int64_t host = parts_.arena != nullptr ? parts_.arena->bytes() : 0;
  if (round_up(plan.host_arena_bytes, page_bytes) > round_up(host, page_bytes)) {
    return internal_error("the plan needs a host arena of " + format_size(plan.host_arena_bytes) +
                          ", it has " + format_size(host));
  }
  const std::string name(parts_.device->name());
  if ((plan.device_arena_bytes == 0) != parts_.device->shares_host_memory()) {
    return internal_error("device " + name + ": the plan was made for a device with" +
                          (plan.device_arena_bytes == 0 ? "out" : "") + " memory of its own");
  }
  const std::int64_t device = parts_.device_memory != nullptr ? parts_.device_memory->bytes() : 0;
  if (plan.device_arena_bytes > device) {
    return internal_error("the plan needs a device arena of " +
                          format_size(plan.device_arena_bytes) + ", device " + name + " has " +
                          format_size(device));
  }
  if (parts_.workload->shapes.empty()) {
    return internal_error("workload '" + parts_.workload->name + "' has no shapes");
  }
  const bool uses_drive = std::any_of(plan.transfers.begin(),
                                      plan.transfers.end(),
                                      [](const Transfer& transfer) {
                                        return transfer.lane == LaneKind::nvme_read ||
                                               transfer.lane == LaneKind::nvme_write;
                                      }) ||
                          std::any_of(plan.homes.begin(), plan.homes.end(), [](const Home& home) {
                            return home.tier == Tier::nvme;
                          });
  if (uses_drive && parts_.pool == nullptr) {
    return internal_error("the plan keeps blocks on nvme and there is no pool");
  }
  return {};
}

Status Executor::set_up_homes() {
  if (arenas_.device != nullptr) {
    PARBUCKLE_ASSIGN(copies_, parts_.device->create_stream());
  }
  std::vector<BlockPlace> places(parts_.workload->blocks.size());
  for (const Home& home : parts_.plan->homes) {
    BlockPlace& place = places[home.block.index()];
    if (home.tier == Tier::nvme) {
      PARBUCKLE_ASSIGN(place.extent, extent_of(home.block, -1));
      continue;
    }
    const Block& block = parts_.workload->blocks[home.block.index()];
    place.address = address(home.allocation) + home.offset;
    place.on_device = home.tier == Tier::device;
    if (block.starts_zero) {
      PARBUCKLE_TRY(zero(home, block.bytes));
    }
  }
  access_ = std::make_unique<BlockAccess>(
      *parts_.workload, parts_.pool, copies_.get(), std::move(places));
  return {};
}

Status Executor::zero(const Home& home, std::int64_t bytes) {
  std::byte* const to = address(home.allocation) + home.offset;
  if (home.tier != Tier::device) {
    std::memset(to, 0, static_cast<std::size_t>(bytes));
    return {};
  }
  const std::vector<std::byte> zeros(static_cast<std::size_t>(std::min(bytes, mib)));
  for (std::int64_t done = 0; done < bytes; done += mib) {
    PARBUCKLE_TRY(copies_->copy(
        to + done, zeros.data(), std::min(mib, bytes - done), CopyDirection::to_device));
  }
  return copies_->synchronise();
}

/// What both memories hold always is one block: batches go down, statistics come up.
void Executor::set_up_mirrors() {
  const std::vector<Allocation>& all = parts_.plan->allocations;
  for (const Allocation& on_device : all) {
    if (on_device.tier != Tier::device || !on_device.resident || !on_device.span.valid()) {
      continue;
    }
    const auto beside = std::find_if(all.begin(), all.end(), [&](const Allocation& other) {
      return other.tier == Tier::host && other.resident && other.span == on_device.span &&
             other.block == on_device.block && other.micro_batch == on_device.micro_batch;
    });
    if (beside != all.end()) {
      mirrors_.push_back({.host = arenas_.of(*beside),
                          .device = arenas_.of(on_device),
                          .bytes = on_device.bytes,
                          .to_device = on_device.role == Role::batch});
    }
  }
}

Status Executor::copy_mirrors(CopyDirection direction) {
  const bool down = direction == CopyDirection::to_device;
  for (const Mirror& mirror : mirrors_) {
    if (mirror.to_device == down) {
      std::byte* const to = down ? mirror.device : mirror.host;
      const std::byte* const from = down ? mirror.host : mirror.device;
      PARBUCKLE_TRY(copies_->copy(to, from, mirror.bytes, direction));
    }
  }
  return mirrors_.empty() ? Status() : copies_->synchronise();
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
  return lanes_[static_cast<std::size_t>(kind)];
}

Result<std::unique_ptr<LaneRunner>> Executor::make_lane(LaneKind kind) {
  if (kind == LaneKind::nvme_read || kind == LaneKind::nvme_write) {
    return LaneRunner::create(kind, *parts_.pool);
  }
  PARBUCKLE_ASSIGN(std::unique_ptr<Stream> stream, parts_.device->create_stream());
  return LaneRunner::create(kind, std::move(stream));
}

Status Executor::set_up_lanes() {
  const Plan& plan = *parts_.plan;
  for (std::size_t t = 0; t < plan.transfers.size(); ++t) {
    const Transfer& transfer = plan.transfers[t];
    LaneSlot& slot = lane(transfer.lane);
    if (slot.runner == nullptr) {
      PARBUCKLE_ASSIGN(slot.runner, make_lane(transfer.lane));
    }
    ExtentId extent;
    std::byte* host = nullptr;
    if (transfer.host.valid()) {
      host = address(transfer.host) + transfer.host_offset;
    } else {
      PARBUCKLE_ASSIGN(extent, extent_of(transfer.block, transfer.micro_batch));
    }
    item_of_transfer_.emplace_back(&slot - lanes_.data(), slot.items.size());
    slot.items.push_back({.transfer = TransferId(t),
                          .extent = extent,
                          .role = parts_.workload->blocks[transfer.block.index()].role,
                          .data = address(transfer.allocation) + transfer.offset,
                          .host = host,
                          .bytes = transfer.bytes,
                          .after_task = transfer.after_task,
                          .after_host_task = transfer.after_host_task,
                          .after_transfers = transfer.after_transfers});
  }
  return {};
}

Status Executor::set_up_tasks() {
  const Plan& plan = *parts_.plan;
  bool seen_update = false;
  bool seen_backward = false;
  bool on_host = false;
  std::size_t last_on_device = 0;
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    TaskSlot slot{.executor = this, .index = t};
    seen_backward = seen_backward || task.kind == TaskKind::backward;
    if (task.kind == TaskKind::update) {
      slot.pending = !seen_backward;
      if (seen_backward && !std::exchange(seen_update, true)) {
        tasks_[last_on_device].decides = true;
      }
    }
    for (const TaskOperand& operand : task.operands) {
      slot.regions.push_back(address(operand.allocation) + operand.offset);
    }
    tasks_.push_back(std::move(slot));
    on_host = on_host || task.lane == LaneKind::host_compute;
    last_on_device = task.lane == LaneKind::compute ? t : last_on_device;
  }
  timeline_.tasks.resize(plan.tasks.size());
  timeline_.transfers.resize(plan.transfers.size());
  PARBUCKLE_TRY(set_up_compute(compute_[0], LaneKind::compute, *parts_.device, parts_.op_table));
  if (!on_host) {
    return {};
  }
  if (parts_.host_device == nullptr) {
    return internal_error(
        "the plan has tasks for the host beside the device and nothing runs them");
  }
  return set_up_compute(compute_[1], LaneKind::host_compute, *parts_.host_device, parts_.host_ops);
}

Status Executor::set_up_compute(ComputeSlot& slot, LaneKind lane, Device& on, OpTable ops) {
  std::vector<bool> used(parts_.programs.size(), false);
  for (const Task& task : parts_.plan->tasks) {
    for (const ProgramId program : parts_.workload->families[task.family.index()].programs) {
      used[program.index()] = used[program.index()] || task.lane == lane;
    }
  }
  PARBUCKLE_ASSIGN(slot.stream, on.create_stream());
  PARBUCKLE_ASSIGN(slot.end, on.create_event());
  PARBUCKLE_ASSIGN(ProgramRunner runner,
                   ProgramRunner::create(parts_.programs, used, ops, *slot.stream));
  slot.programs = std::make_unique<ProgramRunner>(std::move(runner));
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
  failure_ = copy_mirrors(CopyDirection::to_host);
  PARBUCKLE_TRY(failure_);
  failure_ = keeper_->end_step();
  PARBUCKLE_TRY(failure_);
  timeline_.step_s = now();
  trace.timeline = timeline_;
  trace.arena_peak_bytes = keeper_->peak_bytes(Tier::host);
  trace.device_arena_peak_bytes = keeper_->peak_bytes(Tier::device);
  fill_bytes(trace);
  return {};
}

Status Executor::begin_step(const StepInput& input) {
  failure_ = access_->flush();
  PARBUCKLE_TRY(failure_);
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
  return copy_mirrors(CopyDirection::to_device);
}

Status Executor::enqueue(TaskSlot& task) {
  return compute(task.index)
      .stream->enqueue(
          [](void* context) {
            auto* const slot = static_cast<TaskSlot*>(context);
            slot->executor->run_task(*slot);
          },
          &task);
}

void Executor::run_overlapped() {
  for (LaneSlot& slot : lanes_) {
    if (slot.runner) {
      slot.runner->start(slot.items, progress_, *this);
    }
  }
  Status status;
  for (std::size_t t = 0; t < tasks_.size() && status.ok(); ++t) {
    status = enqueue(tasks_[t]);
  }
  if (!status.ok()) {
    progress_.fail(std::move(status));
  }
  for (ComputeSlot& slot : compute_) {
    if (slot.stream == nullptr) {
      continue;
    }
    status = slot.stream->record(*slot.end);
    if (status.ok()) {
      status = slot.end->synchronise();
    }
    if (!status.ok()) {
      progress_.fail(std::move(status));
    }
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
      Status status = enqueue(tasks_[index]);
      if (status.ok()) {
        status = compute(index).stream->synchronise();
      }
      if (!status.ok()) {
        progress_.fail(std::move(status));
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
  const Task& task = parts_.plan->tasks[slot.index];
  if (!progress_.await({task.after_task, -1}, task.waits)) {
    return;
  }
  timeline_.tasks[slot.index].begin_s = now();
  Status status = skips(slot) ? keeper_->task_skipped(slot.index) : perform(slot);
  timeline_.tasks[slot.index].end_s = now();
  if (status.ok() && slot.decides) {
    status = decide();
  }
  if (status.ok()) {
    progress_.task_ended(slot.index);
  } else {
    progress_.fail(std::move(status));
  }
}

bool Executor::skips(const TaskSlot& slot) const {
  if (slot.pending) {
    return input_->mode == StepMode::without_pending;
  }
  return input_->mode == StepMode::pending_only ||
         (parts_.plan->tasks[slot.index].kind == TaskKind::update && !updates_apply_);
}

/// Before anything that waits for this task: updates on both lanes come after it.
Status Executor::decide() {
  if (input_->mode == StepMode::pending_only || !input_->apply_updates) {
    return {};
  }
  PARBUCKLE_TRY(copy_mirrors(CopyDirection::to_host));
  updates_apply_ = input_->apply_updates();
  return {};
}

Status Executor::perform(TaskSlot& slot) {
  const Task& task = parts_.plan->tasks[slot.index];
  const Family& family = parts_.workload->families[task.family.index()];
  const std::size_t program =
      family.programs.size() == 1
          ? 0
          : static_cast<std::size_t>(input_->shapes[static_cast<std::size_t>(task.micro_batch)]);
  PARBUCKLE_TRY(keeper_->task_begins(slot.index));
  std::byte* const scratch = arenas_.of(tier_of(*parts_.plan, task)) + task.scratch_offset;
  const Status status =
      compute(slot.index).programs->run(family.programs[program], slot.regions, scratch);
  return status.ok() ? keeper_->task_ends(slot.index) : named(task, status);
}

/// What failed, in the words of the model: "update of layer3.mlp.weight: ...".
Status Executor::named(const Task& task, const Status& status) const {
  std::string what = std::string(to_string(task.kind)) + " of ";
  if (task.kind == TaskKind::update && !task.operands.empty()) {
    what += parts_.plan->allocations[task.operands.front().allocation.index()].what;
  } else if (task.unit.valid()) {
    what += parts_.workload->units[task.unit.index()].name;
  } else {
    what += parts_.workload->name;
  }
  if (task.micro_batch >= 0) {
    what += ", micro-batch " + std::to_string(task.micro_batch);
  }
  return Status(status.code(), what + ": " + status.message());
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
    const auto over = [&](LaneKind kind) { return moved(lanes_[static_cast<std::size_t>(kind)]); };
    RoleBytes row{.role = static_cast<Role>(r),
                  .read = over(LaneKind::nvme_read),
                  .written = over(LaneKind::nvme_write),
                  .down = over(LaneKind::h2d),
                  .up = over(LaneKind::d2h)};
    for (const RoleBytes& planned : parts_.plan->bytes) {
      if (planned.role == row.role) {
        row.resident = planned.resident;
        row.hosted = planned.hosted;
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
    if (allocation.tier == Tier::host && allocation.resident &&
        allocation.micro_batch == micro_batch &&
        parts_.workload->blocks[at.block.index()].name == name) {
      return std::span<std::byte>(address(at.allocation) + at.begin,
                                  static_cast<std::size_t>(at.end - at.begin));
    }
  }
  return Status(Code::not_found,
                "block '" + std::string(name) + "'" +
                    (micro_batch >= 0 ? " of micro-batch " + std::to_string(micro_batch) : "") +
                    " does not stay in host memory in this plan");
}

std::byte* Executor::address(AllocationId allocation) const {
  return arenas_.of(parts_.plan->allocations[allocation.index()]);
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
