#include "engine/train/planning.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "engine/train/budget.h"
#include "engine/train/hardware_cache.h"
#include "engine/train/set_up.h"
#include "offload/plan/planner.h"

namespace parbuckle {
namespace {

std::int64_t reserve_of(const PlanRequest& request) {
  std::vector<const Workload*> workloads{&request.lowered.workload};
  std::vector<const std::vector<Program>*> programs{&request.lowered.programs};
  for (const Lowered* const other : request.beside) {
    workloads.push_back(&other->workload);
    programs.push_back(&other->programs);
  }
  return host_reserve(reserve_facts(workloads, programs, request.vocabulary));
}

/// What measuring may take: the memory that tasks will run in.
std::int64_t room_to_measure(const Budgets& budgets, bool on_device) {
  const std::int64_t memory = on_device ? budgets.device_bytes : budgets.host_bytes;
  if (memory < 0) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return on_device ? memory : memory - budgets.host_reserve_bytes;
}

}  // namespace

Result<PlanOnHardware> make_plan(const PlanRequest& request, Machine& machine, Observer& observer) {
  const Workload& workload = request.lowered.workload;
  PlanOnHardware made;
  PARBUCKLE_ASSIGN(made.hardware, find_hardware(request.memory, machine));
  std::string note;
  PARBUCKLE_ASSIGN(const Budgets budgets,
                   resolve_budgets(request.memory, made.hardware, reserve_of(request), &note));
  PARBUCKLE_ASSIGN(const Room room, room_for(workload, made.hardware, budgets, request.forced));
  std::vector<Measured> timed;
  if (request.time_programs) {
    timed.push_back({&workload, request.lowered.programs});
  }
  std::string measured;
  PARBUCKLE_TRY(measure_hardware(request.memory,
                                 machine,
                                 timed,
                                 room_to_measure(budgets, machine.emulated().has_value()),
                                 made.hardware,
                                 &measured));
  for (const std::string& line : {measured, note}) {
    if (!line.empty()) {
      observer.on_note(line);
    }
  }
  PARBUCKLE_ASSIGN(made.plan, plan(workload, made.hardware, budgets, request.forced, room));
  PARBUCKLE_TRY(check_plan(workload, made.plan));
  return made;
}

}  // namespace parbuckle
