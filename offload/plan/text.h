// A plan as people read it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// What lives where by role, bytes per step and lane, peaks, predicted step against its bound, the choice with its reasons, the
/// smallest budget, and time and bytes of `steps` steps.
std::string to_text(const Workload& workload, const Plan& plan, std::int64_t steps);

/// "layer-major", "micro-batch-major", "2 micro-batches per visit".
std::string order_name(const Workload& workload, const Choice& choice);

}  // namespace parbuckle
