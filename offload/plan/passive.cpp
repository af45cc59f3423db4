#include "offload/plan/passive.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parbuckle/units.h"

#include "offload/plan/assemble.h"
#include "offload/plan/bound.h"
#include "offload/plan/order.h"
#include "offload/plan/place.h"
#include "offload/plan/schedule.h"
#include "offload/plan/simulate.h"
#include "offload/plan/workload_check.h"

namespace parbuckle {
namespace {

/// Addresses of the blocks that the other plan holds always, and where its residents end.
struct SharedHomes {
  std::map<std::string_view, std::int64_t> offset;
  std::int64_t end = 0;
};

SharedHomes homes_of(const SharedMemory& shared) {
  SharedHomes homes;
  for (const Allocation& allocation : shared.plan->allocations) {
    if (allocation.resident) {
      homes.end = std::max(homes.end, allocation.offset + allocation.bytes);
    }
  }
  for (const Home& home : shared.plan->homes) {
    if (home.tier == Tier::host) {
      const Block& block = shared.workload->blocks[home.block.index()];
      homes.offset[block.name] =
          shared.plan->allocations[home.allocation.index()].offset + home.offset;
    }
  }
  homes.end = round_up(homes.end, page_bytes);
  return homes;
}

/// Where the other plan has this span; nothing if it does not hold it always.
std::optional<std::int64_t> shared_offset(const Workload& workload,
                                          SpanId span,
                                          const SharedHomes& homes) {
  if (!span.valid()) {
    return std::nullopt;
  }
  const Block& first = workload.blocks[workload.spans[span.index()].blocks.front().index()];
  const auto found = homes.offset.find(first.name);
  return first.persistent && found != homes.offset.end() ? std::optional(found->second)
                                                         : std::nullopt;
}

Choice forward_choice(const Workload& workload, const SharedHomes& homes, std::int32_t group) {
  Choice choice{
      .group = group,
      .alternative = std::vector<std::int32_t>(workload.units.size(), 0),
      .activation = std::vector<ActivationPlace>(workload.units.size(), ActivationPlace::host)};
  for (std::size_t s = 0; s < workload.spans.size(); ++s) {
    if (shared_offset(workload, SpanId(s), homes)) {
      choice.resident.emplace_back(s);
    }
  }
  return choice;
}

/// Places what is not shared above the shared residents; nothing if it does not fit.
std::optional<Placement> place_beside(const Workload& workload,
                                      const Schedule& schedule,
                                      const UseTable& uses,
                                      std::int32_t tasks,
                                      const SharedHomes& homes,
                                      std::int64_t arena_bytes) {
  Schedule own;
  std::vector<std::size_t> own_visits;
  Placement placement{.offset = std::vector<std::int64_t>(schedule.visits.size()),
                      .arena_bytes = arena_bytes};
  for (std::size_t v = 0; v < schedule.visits.size(); ++v) {
    const Visit& visit = schedule.visits[v];
    const auto shared = visit.resident ? shared_offset(workload, visit.span, homes) : std::nullopt;
    if (shared) {
      placement.offset[v] = *shared;
    } else {
      own_visits.push_back(v);
      own.visits.push_back(visit);
    }
  }
  const std::int64_t capacity = arena_bytes - homes.end;
  if (place_tight(own).arena_bytes > capacity) {
    return std::nullopt;
  }
  const Placement inner = place(own, tasks, capacity, visit_traffic_bytes(schedule, uses));
  for (std::size_t i = 0; i < own_visits.size(); ++i) {
    placement.offset[own_visits[i]] = homes.end + inner.offset[i];
  }
  placement.resident_bytes = homes.end + inner.resident_bytes;
  return placement;
}

Result<std::optional<Plan>> plan_group(const Workload& workload,
                                       const Hardware& hardware,
                                       const SharedMemory& shared,
                                       std::int32_t group) {
  const SharedHomes homes = homes_of(shared);
  const Choice choice = forward_choice(workload, homes, group);
  const std::vector<ChainTask> chain = expand(workload, choice);
  const UseTable uses = collect_uses(workload, chain);
  PARBUCKLE_ASSIGN(const Schedule made, schedule(workload, choice, chain, uses));
  const auto placement = place_beside(workload,
                                      made,
                                      uses,
                                      static_cast<std::int32_t>(chain.size()),
                                      homes,
                                      shared.plan->host_arena_bytes);
  if (!placement) {
    return std::optional<Plan>();
  }
  Plan plan = assemble(workload, choice, chain, made, *placement);
  plan.host_arena_bytes = shared.plan->host_arena_bytes;
  plan.budgets = shared.plan->budgets;
  PARBUCKLE_ASSIGN(const std::vector<double> seconds, family_seconds(workload, hardware));
  PARBUCKLE_ASSIGN(plan.predicted, simulate(plan, seconds, hardware));
  plan.bound = bound_of_plan(plan, seconds, hardware);
  return std::optional<Plan>(std::move(plan));
}

}  // namespace

Result<Plan> plan_passive(const Workload& workload,
                          const Hardware& hardware,
                          const SharedMemory& shared) {
  PARBUCKLE_TRY(check_workload(workload));
  for (const std::int32_t group : {workload.micro_batches, 1}) {
    PARBUCKLE_ASSIGN(std::optional<Plan> made, plan_group(workload, hardware, shared, group));
    if (made) {
      return *std::move(made);
    }
  }
  return exhausted("host memory: what the plan of '" + shared.plan->workload + "' leaves of its " +
                   format_size(shared.plan->host_arena_bytes) + " is too small for the " +
                   std::string(to_string(workload.phase)) + " phase");
}

}  // namespace parbuckle
