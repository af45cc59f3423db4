// Fourth pass: a Plan from a schedule and its addresses. Two visits that share memory are ordered here: the first event of the
// later one waits for the last event of the earlier one.
#pragma once

#include "offload/plan/order.h"
#include "offload/plan/place.h"
#include "offload/plan/schedule.h"

namespace parbuckle {

/// Everything of a Plan except budgets, predicted times, bound and reasons.
Plan assemble(const Workload& workload,
              const Choice& choice,
              const std::vector<ChainTask>& chain,
              const Schedule& schedule,
              const Placement& placement);

}  // namespace parbuckle
