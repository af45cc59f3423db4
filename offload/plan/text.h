// A plan as people read it: what lives where, what moves, what it costs and why.
#pragma once

#include <string>

#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// Several lines: order, policy, window and why; memory and drive by role; bytes per lane and role; arena; predicted step beside
/// its bound; smallest budget; one line for all units that are treated alike.
std::string plan_text(const Workload& workload, const Plan& plan);

}  // namespace parbuckle
