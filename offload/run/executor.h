// Walks a Plan step by step: tasks on the streams of their compute lanes, transfers on theirs, in the order of events that
// engine/base/plan.h lays down. It decides nothing, and allocates nothing in a step.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/op.h"
#include "engine/base/plan.h"
#include "engine/base/program.h"
#include "engine/base/workload.h"
#include "kernels/runtime/device.h"
#include "offload/run/arenas.h"
#include "offload/run/block_access.h"
#include "offload/run/program_runner.h"
#include "offload/run/range_keeper.h"
#include "offload/run/step_table.h"
#include "offload/storage/pool.h"
#include "offload/tier/arena.h"
#include "offload/tier/ledger.h"
#include "offload/transfer/lane_runner.h"
#include "offload/transfer/progress.h"

namespace parbuckle {

/// *Pending* updates stand before the plan's first backward task: they apply the gradients of the step before (window lazy, and
/// in window fused the tables whose backward does not read them).
enum class StepMode {
  full,             // everything
  without_pending,  // pending updates do nothing: the first step, or after a dropped one
  pending_only  // pending updates and their transfers alone: before a run saves, evaluates or stops
};

/// without_pending keeps the schedule: transfers that serve pending updates still run, and carry unchanged bytes back.
/// pending_only keeps the order of events too; what it leaves out ends at once and moves nothing.
struct StepInput {
  std::span<const std::int32_t> shapes;  // per micro-batch: index into Workload::shapes
  StepMode mode = StepMode::full;
  /// Asked once, on the device's stream, before the first update that is not pending; false leaves out all of those.
  /// All that the device does before it in the plan has run: losses (and with `after` the norm) can be read. Empty: yes.
  std::function<bool()> apply_updates;
};

/// Everything that an executor works with; all of it must outlive the executor.
struct ExecutorParts {
  const Plan* plan = nullptr;
  const Workload* workload = nullptr;
  std::span<const Program> programs;
  OpTable op_table;
  Device* device = nullptr;
  OpTable host_ops;               // of the host's lane beside a device
  Device* host_device = nullptr;  // runs that lane; may be null where the plan has no tasks there
  Arena* arena = nullptr;         // the host's; may be null where the plan has none
  DeviceMemory* device_memory = nullptr;  // null where the host computes
  Pool* pool = nullptr;                   // may be null where the plan has nothing on nvme
};

struct ExecutorOptions {
  /// One event at a time, in one fixed order: what the overlapped step is compared with.
  bool serial = false;
  /// Fill ranges with 0xFF when they are given back and scratch before every task: use before arrival or after free
  /// changes results.
  bool poison = false;
};

class Executor final : public TransferWatch {
 public:
  /// Checks that plan, workload, programs, arena and pool fit together, prepares every op on the stream that will run it,
  /// gives each block on nvme its extent, and zeroes host homes of blocks that start as zeros.
  static Result<std::unique_ptr<Executor>> create(const ExecutorParts& parts,
                                                  const ExecutorOptions& options = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  Executor(Executor&&) = delete;
  Executor& operator=(Executor&&) = delete;
  ~Executor() override = default;

  /// Runs one step and waits for its end. `trace` is overwritten; its vectors are used again. After an error the
  /// contents of the step are undefined and every later call returns that error.
  Status run_step(const StepInput& input, StepTrace& trace);

  /// Bytes of a block that the host writes or reads between steps (batch, scalars, statistics). Beside a device with memory of
  /// its own: a mirror, sent to the device when a step begins (batches) and back before apply_updates and when it ends
  /// (statistics). not_found where the plan holds no such block.
  Result<std::span<std::byte>> host_block(std::string_view block, std::int32_t micro_batch = -1);

  /// A persistent block at its home, wherever that is; between steps. Loading and saving. Others than this executor see what
  /// was written after finish_writes().
  Status read_block(BlockId block, std::int64_t offset, std::span<std::byte> to);
  Status write_block(BlockId block, std::int64_t offset, std::span<const std::byte> from);
  Status finish_writes();

  /// Bytes of host memory ranges by role, with peaks.
  [[nodiscard]] const Ledger& ledger() const { return keeper_->ledger(); }

  Status transfer_begins(TransferId transfer, bool skipped) override;
  Status transfer_ends(TransferId transfer, bool skipped) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct TaskSlot {
    Executor* executor = nullptr;
    std::size_t index = 0;
    bool pending = false;  // a pending update
    bool decides =
        false;  // the last task of the device before the first update that is not pending
    std::vector<std::byte*> regions;
  };
  /// A block that host and device both hold.
  struct Mirror {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    std::int64_t bytes = 0;
    bool to_device = false;
  };
  /// One queue of tasks.
  struct ComputeSlot {
    std::unique_ptr<ProgramRunner> programs;
    std::unique_ptr<Event> end;
    std::unique_ptr<Stream> stream;  // last: its work uses the rest
  };
  struct LaneSlot {
    std::unique_ptr<LaneRunner> runner;
    std::vector<LaneItem> items;
    RoleCounters before{};  // counters when the step began
  };

  Executor(const ExecutorParts& parts, const ExecutorOptions& options);
  Status check_parts() const;
  Status set_up_tasks();
  Status set_up_compute(ComputeSlot& slot, LaneKind lane, Device& on, OpTable ops);
  Status set_up_lanes();
  Result<ExtentId> extent_of(BlockId block, std::int32_t micro_batch);
  Status set_up_homes();
  Status zero(const Home& home, std::int64_t bytes);
  void set_up_mirrors();
  Status copy_mirrors(CopyDirection direction);
  Status begin_step(const StepInput& input);
  Status enqueue(TaskSlot& task);
  void run_overlapped();
  void run_serial();
  void run_task(TaskSlot& slot);
  Status perform(TaskSlot& slot);
  [[nodiscard]] Status named(const Task& task, const Status& status) const;
  [[nodiscard]] bool skips(const TaskSlot& slot) const;
  Status decide();
  void fill_bytes(StepTrace& trace) const;
  [[nodiscard]] double now() const;
  LaneSlot& lane(LaneKind kind);
  ComputeSlot& compute(std::size_t task) {
    return compute_[parts_.plan->tasks[task].lane == LaneKind::host_compute ? 1 : 0];
  }
  Result<std::unique_ptr<LaneRunner>> make_lane(LaneKind kind);
  [[nodiscard]] std::byte* address(AllocationId allocation) const;

  ExecutorParts parts_;
  ExecutorOptions options_;
  ArenaAddresses arenas_;
  StepTable table_;
  std::unique_ptr<RangeKeeper> keeper_;
  std::unique_ptr<BlockAccess> access_;
  Progress progress_;
  std::vector<TaskSlot> tasks_;
  std::array<LaneSlot, lane_kind_count> lanes_;  // by LaneKind; those that run tasks stay empty
  std::vector<Mirror> mirrors_;
  std::vector<std::pair<std::size_t, std::size_t>> item_of_transfer_;  // lane, position
  std::unique_ptr<Stream> copies_;    // mirrors and homes on a device; null where the host computes
  const StepInput* input_ = nullptr;  // of the step that runs
  bool updates_apply_ = true;         // those that are not pending
  Clock::time_point step_begin_;
  Timeline timeline_;
  Status failure_;
  std::array<ComputeSlot, 2>
      compute_;  // the device's, the host's beside it; last: they use the rest
};

}  // namespace parbuckle
