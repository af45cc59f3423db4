#include "offload/plan/forecast.h"

#include <cstddef>
#include <set>
#include <utility>

#include "parbuckle/units.h"

#include "offload/plan/simulate.h"

namespace parbuckle {
namespace {

bool on_drive(LaneKind lane) {
  return lane == LaneKind::nvme_read || lane == LaneKind::nvme_write;
}

std::size_t shape_of(const Workload& workload, const StepFacts& facts, std::int32_t micro_batch) {
  return micro_batch < 0
             ? workload.shapes.size() - 1
             : static_cast<std::size_t>(facts.shapes[static_cast<std::size_t>(micro_batch)]);
}

/// What stands on the drive before the first step: weights alone.
bool written_at_start(const Block& block) {
  return block.persistent && !block.starts_zero;
}

std::vector<RoleBytes> by_role(const Workload& workload,
                               const Plan& plan,
                               const std::vector<std::int64_t>& bytes) {
  std::vector<RoleBytes> roles(role_count);
  for (std::size_t t = 0; t < plan.transfers.size(); ++t) {
    const Transfer& transfer = plan.transfers[t];
    const Block& block = workload.blocks[transfer.block.index()];
    moved(roles[static_cast<std::size_t>(block.role)], transfer.lane) += bytes[t];
  }
  std::vector<RoleBytes> found;
  for (std::size_t r = 0; r < roles.size(); ++r) {
    if (roles[r] != RoleBytes{}) {
      roles[r].role = static_cast<Role>(r);
      found.push_back(roles[r]);
    }
  }
  return found;
}

Result<std::vector<double>> task_seconds(const Workload& workload,
                                         const Plan& plan,
                                         const Hardware& hardware,
                                         const StepFacts& facts) {
  std::vector<FamilySeconds> at_shape;  // per shape
  for (std::size_t shape = 0; shape < workload.shapes.size(); ++shape) {
    PARBUCKLE_ASSIGN(FamilySeconds seconds, family_seconds(workload, hardware, shape));
    at_shape.push_back(std::move(seconds));
  }
  std::vector<double> seconds;
  seconds.reserve(plan.tasks.size());
  for (const Task& task : plan.tasks) {
    seconds.push_back(
        at_shape[shape_of(workload, facts, task.micro_batch)].of(task.family, task.lane));
  }
  return seconds;
}

}  // namespace

std::vector<std::int64_t> transfer_bytes(const Workload& workload,
                                         const Plan& plan,
                                         const StepFacts& facts) {
  std::vector<std::int64_t> bytes;
  bytes.reserve(plan.transfers.size());
  std::set<std::pair<BlockId, std::int32_t>> written;
  // Transfers stand in an order in which a block is read after the write that saved it.
  for (const Transfer& transfer : plan.transfers) {
    const Block& block = workload.blocks[transfer.block.index()];
    const std::size_t shape = shape_of(workload, facts, transfer.micro_batch);
    const std::pair what(transfer.block, transfer.micro_batch);
    const bool reads = transfer.lane == LaneKind::nvme_read;
    const bool from_nowhere =
        facts.first && reads && !written_at_start(block) && !written.contains(what);
    bytes.push_back(
        from_nowhere ? 0 : round_up(block_bytes(block, workload.shapes[shape]), page_bytes));
    if (on_drive(transfer.lane) && !reads) {
      written.insert(what);
    }
  }
  return bytes;
}

Result<StepForecast> forecast_step(const Workload& workload,
                                   const Plan& plan,
                                   const Hardware& hardware,
                                   const StepFacts& facts) {
  StepLoad load{.transfer_bytes = transfer_bytes(workload, plan, facts)};
  PARBUCKLE_ASSIGN(load.task_s, task_seconds(workload, plan, hardware, facts));
  PARBUCKLE_ASSIGN(const Timeline timeline, simulate(plan, load, hardware));
  return StepForecast{.bytes = by_role(workload, plan, load.transfer_bytes),
                      .step_s = timeline.step_s};
}

}  // namespace parbuckle
