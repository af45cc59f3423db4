// The parts of validate(), each appending its faults.
#pragma once

#include <string>
#include <vector>

#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle::validation {

using Faults = std::vector<std::string>;

/// Ids, ranges, alignment, sizes, sums and budgets. The other parts need a plan without such faults.
void check_structure(const Workload& workload, const Plan& plan, Faults& faults);

/// Per task of the plan: what it is in the workload; null where it is nothing there.
using Templates = std::vector<const TaskTemplate*>;

/// Each task of the workload is there once, and in an order that the mathematics allows.
Templates check_tasks(const Workload& workload, const Plan& plan, Faults& faults);

/// Replays memory and drive in every possible timing at once. REQUIRES: no null in `templates`.
void check_memory(const Workload& workload,
                  const Plan& plan,
                  const Templates& templates,
                  Faults& faults);

}  // namespace parbuckle::validation
