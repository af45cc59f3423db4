// Plans for passes that run between training steps (eval, prefill, decode) in the same arena, around what training keeps there.
#pragma once

#include <span>

#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// A plan whose memory must stay as it is, and the workload it was made for.
struct Surroundings {
  const Workload* workload = nullptr;
  const Plan* plan = nullptr;
};

/// The fastest plan of a forward-only workload inside the arenas of `around` (beside a device, host memory may grow up to the
/// budget: take the larger of the plans' host arenas), one or more plans that share an arena (training;
/// or training and prefill, for decode). Spans that they hold always (homes, key/value caches, batches) keep their
/// offsets, found by name in the first plan that has them; all of them stay untouched, and everything else uses the memory above
/// them. Between steps a lazy training plan has pending updates: they must have been applied, the memory of their gradients is
/// used here.
/// Fails with resource_exhausted where the memory left is too small, and with invalid_argument where a persistent block has
/// another size in `around`.
/// REQUIRES: `around` is not empty.
Result<Plan> plan_passive(const Workload& workload,
                          const Hardware& hardware,
                          std::span<const Surroundings> around);
Result<Plan> plan_passive(const Workload& workload,
                          const Hardware& hardware,
                          const Surroundings& around);

}  // namespace parbuckle
