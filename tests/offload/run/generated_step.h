// Generated workloads with mixing programs, planned by the planner and run by the executor over a drive in memory.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "kernels/runtime/cpu/cpu_device.h"
#include "kernels/runtime/emulated/emulated_device.h"
#include "offload/plan/planner.h"
#include "offload/run/executor.h"
#include "tests/support/faulty_file.h"
#include "tests/support/mixing_programs.h"
#include "tests/support/unplaced_run.h"
#include "tests/support/workload_generator.h"

namespace parbuckle {

struct GeneratedStep {
  Workload workload;
  std::vector<Program> programs;
  Plan plan;

  [[nodiscard]] std::vector<std::int32_t> largest_shapes() const {
    return std::vector<std::int32_t>(static_cast<std::size_t>(workload.micro_batches),
                                     static_cast<std::int32_t>(workload.shapes.size()) - 1);
  }
};

inline GeneratedStep generate(const TransformerSizes& sizes, const Forced& forced) {
  GeneratedStep step;
  step.workload = make_workload(sizes);
  step.programs = make_mixing_programs(step.workload);
  Budgets budgets;
  const Hardware machine = small_machine();
  budgets.host_bytes = smallest_host_bytes(step.workload, machine, budgets, forced).value();
  step.plan = plan(step.workload, machine, budgets, forced).value();
  return step;
}

/// Bytes that differ from block to block.
inline void fill_by_name(std::span<std::byte> bytes, const std::string& name, std::uint64_t salt) {
  std::uint64_t state = std::hash<std::string>()(name) + salt * 0x9E3779B97F4A7C15U;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(state >> 56);
  }
}

/// An executor with all that it works with. Drive and ops may be told to fail or to dawdle.
class GeneratedRun {
 public:
  explicit GeneratedRun(const GeneratedStep& step, const ExecutorOptions& options = {})
      : step_(step),
        device_(device_for(step.plan)),
        arena_(Arena::create(
                   {.bytes = std::max(page_bytes, step.plan.host_arena_bytes), .lock = false})
                   .value()) {
    if (step.plan.device_arena_bytes > 0) {
      device_memory_ = device_->create_memory(step.plan.device_arena_bytes).value();
    }
    auto file = std::make_unique<FaultyFile>(step.plan.nvme_pool_bytes);
    drive = file.get();
    pool_ = Pool::over(std::move(file), step.plan.nvme_pool_bytes);
    Result<std::unique_ptr<Executor>> made = Executor::create(parts(), options);
    if (made.ok()) {
      executor = std::move(made).value();
    }
    created = made.status();
  }

  GeneratedRun(const GeneratedRun&) = delete;
  GeneratedRun& operator=(const GeneratedRun&) = delete;
  GeneratedRun(GeneratedRun&&) = delete;
  GeneratedRun& operator=(GeneratedRun&&) = delete;
  ~GeneratedRun() {
    executor.reset();  // before what it works with
  }

  [[nodiscard]] ExecutorParts parts() {
    return {.plan = &step_.plan,
            .workload = &step_.workload,
            .programs = step_.programs,
            .op_table = ops.table(),
            .device = device_.get(),
            .host_ops = host_ops.table(),
            .host_device = host_device_.get(),
            .arena = &arena_,
            .device_memory = device_memory_.get(),
            .pool = pool_.get()};
  }

  /// Requests and ops sleep now and then, at other places for every seed.
  void dawdle(std::uint32_t seed) {
    const auto sometimes = [this, seed] {
      const std::uint32_t n = calls_.fetch_add(1) * 2654435761U + seed;
      if (n % 128 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(n / 128 % 256));
      }
      return Status();
    };
    ops.before_op = sometimes;
    host_ops.before_op = sometimes;
    drive->before = [sometimes](bool, std::int64_t, std::size_t) { return sometimes(); };
  }

  FaultyFile* drive = nullptr;
  MixingDevice ops;
  MixingDevice host_ops;  // of the host's lane beside a device
  Status created;
  std::unique_ptr<Executor> executor;

 private:
  static std::unique_ptr<Device> device_for(const Plan& plan) {
    if (plan.device_arena_bytes == 0) {
      return CpuDevice::create().value();
    }
    return EmulatedDevice::create(
               {.memory_bytes = plan.device_arena_bytes, .link_bytes_per_s = 8'000'000'000})
        .value();
  }

  const GeneratedStep& step_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> host_device_ = CpuDevice::create().value();
  Arena arena_;
  std::unique_ptr<DeviceMemory> device_memory_;
  std::unique_ptr<Pool> pool_;
  std::atomic<std::uint32_t> calls_{0};
};

/// Calls visit(block, micro-batch) for every block that can be read between steps.
template <class Visit>
void for_readable_blocks(const Workload& workload, const Visit& visit) {
  for (std::size_t b = 0; b < workload.blocks.size(); ++b) {
    const Block& block = workload.blocks[b];
    if (block.persistent || (block.pinned && !block.per_micro_batch)) {
      visit(BlockId(b), -1);
    } else if (block.pinned) {
      for (std::int32_t m = 0; m < workload.micro_batches; ++m) {
        visit(BlockId(b), m);
      }
    }
  }
}

/// The same bytes into both: weights at first, batches before every step.
inline void load(const GeneratedStep& step, Executor& executor, UnplacedRun& unplaced) {
  for_readable_blocks(step.workload, [&](BlockId id, std::int32_t) {
    const Block& block = step.workload.blocks[id.index()];
    if (block.persistent && !block.starts_zero) {
      const std::span<std::byte> bytes = unplaced.block(id);
      fill_by_name(bytes, block.name, 0);
      const Status status = executor.write_block(id, 0, bytes);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  });
}

inline void load_batch(const GeneratedStep& step,
                       std::uint64_t number,
                       Executor& executor,
                       UnplacedRun& unplaced) {
  for_readable_blocks(step.workload, [&](BlockId id, std::int32_t micro_batch) {
    const Block& block = step.workload.blocks[id.index()];
    if (block.role == Role::batch) {
      const auto host = executor.host_block(block.name, micro_batch);
      ASSERT_TRUE(host.ok()) << host.status().message();
      const std::span<std::byte> bytes = unplaced.block(id, micro_batch);
      fill_by_name(bytes, block.name + "#" + std::to_string(micro_batch), number);
      std::ranges::copy(bytes, host->begin());
    }
  });
}

/// Names the first block whose bytes differ; empty: all are the same.
inline std::string difference(const GeneratedStep& step,
                              Executor& executor,
                              UnplacedRun& unplaced) {
  std::string found;
  for_readable_blocks(step.workload, [&](BlockId id, std::int32_t micro_batch) {
    const Block& block = step.workload.blocks[id.index()];
    if (!found.empty()) {
      return;
    }
    const std::span<std::byte> expected = unplaced.block(id, micro_batch);
    std::vector<std::byte> bytes(expected.size());
    if (block.persistent) {
      const Status status = executor.read_block(id, 0, bytes);
      found = status.message();
    } else {
      const auto host = executor.host_block(block.name, micro_batch);
      found = host.status().message();
      if (host.ok()) {
        bytes.assign(host->begin(), host->end());
      }
    }
    if (found.empty() && !bytes.empty() &&
        std::memcmp(bytes.data(), expected.data(), bytes.size()) != 0) {
      found = "block '" + block.name + "', micro-batch " + std::to_string(micro_batch);
    }
  });
  return found;
}

/// (read, written, down, up) by role, roles that moved nothing left out.
using MovedByRole = std::map<Role, std::array<std::int64_t, 4>>;
inline MovedByRole moved_by_role(const std::vector<RoleBytes>& rows) {
  MovedByRole moved;
  for (const RoleBytes& row : rows) {
    const std::array<std::int64_t, 4> bytes{row.read, row.written, row.down, row.up};
    if (bytes != std::array<std::int64_t, 4>{}) {
      moved[row.role] = bytes;
    }
  }
  return moved;
}

}  // namespace parbuckle
