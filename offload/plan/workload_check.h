// Whether a workload can be planned at all: ids, sizes, alignment, bindings.
#pragma once

#include "parbuckle/status.h"

#include "engine/base/workload.h"

namespace parbuckle {

/// The first fault found. A workload that passes is safe for every pass of the planner.
Status check_workload(const Workload& workload);

}  // namespace parbuckle
