// Plans for phases that share memory with another plan: evaluation beside training, decoding beside prefill.
#pragma once

#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// What the plan of another workload already holds.
struct SharedMemory {
  const Workload* workload = nullptr;
  const Plan* plan = nullptr;
};

/// A plan for a phase without backward inside the arena of `shared`: persistent blocks of equal name stay where that plan has them,
/// all else lies above its residents. Both must be idle while the other runs a step, and no update may be pending.
/// Fails with resource_exhausted where the rest of the arena is too small.
Result<Plan> plan_passive(const Workload& workload,
                          const Hardware& hardware,
                          const SharedMemory& shared);

}  // namespace parbuckle
