// From what the user allows and what the machine has to a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "parbuckle/config.h"
#include "parbuckle/status.h"
#include "parbuckle/trainer.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/graph/lower.h"
#include "engine/train/machine.h"
#include "offload/plan/candidates.h"

namespace parbuckle {

struct PlanRequest {
  const MemoryConfig& memory;
  const Lowered& lowered;  // the phase that is planned
  std::vector<const Lowered*> beside =
      {};                       // other phases that the run prepares: they count in the reserve
  std::int64_t vocabulary = 0;  // tokens of the tokenizer
  Forced forced = {};
  bool time_programs = false;  // otherwise their times follow from the device's rates
};

struct PlanOnHardware {
  Plan plan;
  Hardware hardware;
};

/// Capacities, budgets, refusal, measurements, search, check: in this order, so that a budget which cannot be kept is refused before
/// anything is measured, and measuring keeps it too. Notes go to `observer`.
Result<PlanOnHardware> make_plan(const PlanRequest& request, Machine& machine, Observer& observer);

}  // namespace parbuckle
