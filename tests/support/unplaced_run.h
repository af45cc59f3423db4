// A plan's tasks in their order on buffers of their own: no arena, no transfers, no threads. What an executor's bytes are compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/plan.h"
#include "engine/base/program.h"
#include "engine/base/workload.h"
#include "offload/run/executor.h"

namespace parbuckle {

/// Every span, once per micro-batch where it is per micro-batch, has its own buffer for the whole run. Runs mixing programs.
class UnplacedRun {
 public:
  /// All must outlive the run. Pinned blocks and those that start as zeros are zeros, all others 0xFF.
  UnplacedRun(const Workload& workload, const Plan& plan, std::span<const Program> programs);

  void run_step(const StepInput& input);
  [[nodiscard]] std::span<std::byte> block(BlockId id, std::int32_t micro_batch = -1);

 private:
  void run_task(const Task& task, std::span<const std::int32_t> shapes);
  std::vector<std::byte>& buffer(SpanId span, std::int32_t micro_batch);

  const Workload& workload_;
  const Plan& plan_;
  std::span<const Program> programs_;
  std::map<std::pair<SpanId, std::int32_t>, std::vector<std::byte>> buffers_;
};

}  // namespace parbuckle
