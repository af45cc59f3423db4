// The time no schedule can beat: for the tasks and bytes of one plan, and for a workload whatever is chosen.
#pragma once

#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/base/workload.h"
#include "offload/plan/simulate.h"

namespace parbuckle {

/// No timing of these tasks and transfers is shorter than step_s: the longest of compute, reads, writes and both together,
/// with what must come before the first waiting task (fill) and after the last change (drain).
Bound bound_of_plan(const Plan& plan,
                    const FamilySeconds& family_seconds,
                    const Hardware& hardware);

/// No plan of this workload within these budgets is shorter: least compute, and bytes of state that do not fit in memory read
/// once and, where a step changes them, written once.
Bound bound_of_workload(const Workload& workload,
                        const FamilySeconds& family_seconds,
                        const Hardware& hardware,
                        const Budgets& budgets);

/// Least seconds to read and write so many bytes on one drive, both directions used as well as can be.
double duplex_seconds(const Hardware& hardware, double read_bytes, double written_bytes);

}  // namespace parbuckle
