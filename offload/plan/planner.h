// The planner: a pure function from a workload, a machine and budgets to the plan of one step.
#pragma once

#include <cstdint>

#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/base/workload.h"
#include "offload/plan/candidates.h"

namespace parbuckle {

/// The plan with the shortest predicted step among those that keep the budgets: every group size, window, activation policy and
/// boundary place is tried, spare memory pins spans (gradients first, then by bytes saved per byte held), single units
/// change their policy while that helps, and only the simulator decides. The same arguments give the same plan.
/// `budgets.host_bytes` -1: everything stays in memory and no byte moves to or from a drive. Hardware with a link to a device
/// (lanes h2d and d2h): tasks run there, in at most `budgets.device_bytes`, and host memory is the tier below.
/// Fails with resource_exhausted where a tier is too small, naming it, what is short and the smallest budget that works.
Result<Plan> plan(const Workload& workload,
                  const Hardware& hardware,
                  const Budgets& budgets,
                  const Forced& forced = {});

/// Smallest Budgets::host_bytes, in whole MiB, with which plan() succeeds; the reserve and the device's bytes of `budgets` count,
/// its other members do not. One MiB less fails.
Result<std::int64_t> smallest_host_bytes(const Workload& workload,
                                         const Hardware& hardware,
                                         const Budgets& budgets,
                                         const Forced& forced = {});

/// Smallest Budgets::device_bytes, in whole pages, with which plan() succeeds where host memory and drive suffice. 0: the
/// hardware has no device with memory of its own.
Result<std::int64_t> smallest_device_bytes(const Workload& workload,
                                           const Hardware& hardware,
                                           const Forced& forced = {});

}  // namespace parbuckle
