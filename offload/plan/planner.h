// The planner: a pure function from a workload, a machine and budgets to the plan of one step.
#pragma once

#include <cstdint>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/base/workload.h"
#include "offload/plan/candidates.h"

namespace parbuckle {

/// What the base choices take of memory at least. No time matters here, so it is known before anything is measured.
struct Room {
  struct Base {
    Choice choice;
    std::int64_t least_arena = 0;  // of compute memory
    std::int64_t least_host = 0;   // beside a device
  };
  std::vector<Base> bases;
  std::int64_t smallest_host_bytes = 0;  // smallest_host_bytes() of the same arguments
};

/// Fails as plan() does where no choice fits in the budgets of device and host memory. Rates and times of `hardware` do not count,
/// only which tiers and lanes there are.
Result<Room> room_for(const Workload& workload,
                      const Hardware& hardware,
                      const Budgets& budgets,
                      const Forced& forced = {});

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

/// The same where room_for() of the same arguments has been asked before.
Result<Plan> plan(const Workload& workload,
                  const Hardware& hardware,
                  const Budgets& budgets,
                  const Forced& forced,
                  const Room& room);

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
