// Last pass: a Plan from a schedule and its addresses. Two visits that share memory are ordered here: the first event of the
// later one waits for the last event of the earlier one.
#pragma once

#include "offload/plan/order.h"
#include "offload/plan/place.h"
#include "offload/plan/schedule.h"
#include "offload/plan/stage.h"

namespace parbuckle {

/// The host's side where the compute memory is a device's own.
struct HostSide {
  const Staging& staging;
  const Placement& placement;
};

/// Everything of a Plan except budgets, predicted times, bound and reasons. `host` null: the host computes.
Plan assemble(const Workload& workload,
              const Choice& choice,
              const std::vector<ChainTask>& chain,
              const Schedule& schedule,
              const Placement& placement,
              const HostSide* host = nullptr);

}  // namespace parbuckle
