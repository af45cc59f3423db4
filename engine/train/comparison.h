// A step beside its plan: what was moved and how long it took next to what the plan says for this step's shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "parbuckle/status.h"
#include "parbuckle/trainer.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/train/set_up.h"
#include "offload/plan/forecast.h"

namespace parbuckle {

std::int64_t sum_over_roles(const std::vector<RoleBytes>& bytes, std::int64_t RoleBytes::*member);

/// Fills the members of `record` that compare: seconds predicted, bytes by lane and role both ways, arena peak.
Status compare_with_plan(const Planned& planned,
                         const Hardware& hardware,
                         const StepFacts& facts,
                         const StepTrace& trace,
                         StepRecord& record);

}  // namespace parbuckle
