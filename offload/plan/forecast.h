// What one step of a run will move and take. A plan is made for micro-batches of the largest ShapeKey and for steady state; a
// step has shapes of its own, and the first one meets blocks that were never written. Measured is compared with this.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle {

struct StepFacts {
  std::span<const std::int32_t> shapes;  // per micro-batch: index into Workload::shapes
  /// Nothing but weights has been written: what would come from an earlier step, and moments that start as zeros, come from
  /// nowhere.
  bool first = false;
};

/// Bytes of each transfer of the plan in this step, like Plan::transfers.
/// REQUIRES: one shape per micro-batch of the workload.
std::vector<std::int64_t> transfer_bytes(const Workload& workload,
                                         const Plan& plan,
                                         const StepFacts& facts);

struct StepForecast {
  std::vector<RoleBytes> bytes;  // moved by role, roles ascending, those that move nothing left out
  double step_s = 0;
};

/// Fails as simulate() does.
Result<StepForecast> forecast_step(const Workload& workload,
                                   const Plan& plan,
                                   const Hardware& hardware,
                                   const StepFacts& facts);

}  // namespace parbuckle
