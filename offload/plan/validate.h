// Checks a Plan against its Workload without the planner's help: it shares no code with the passes that make plans, so a
// mistake there shows here. Run on every plan in tests and before every run.
#pragma once

#include <string>
#include <vector>

#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// Every fault found, one line each; empty if the plan is sound. Sound means:
///  - every task of the workload (for the plan's choice) is there once, in an order that the mathematics allows, with every use
///    bound to an allocation of its span;
///  - whatever the lanes' timing, each task reads the newest version of each block, and nothing is overwritten while it is
///    still needed (proved with vector clocks over `waits`, `after_task`, `after_transfers` and the lanes' order), in both
///    memories and on both compute lanes;
///  - the step ends as it began: every block that the next step reads lies where that step looks for it;
///  - ranges, alignment, sizes, budgets and the plan's own sums are right.
std::vector<std::string> validate(const Workload& workload, const Plan& plan);

}  // namespace parbuckle
