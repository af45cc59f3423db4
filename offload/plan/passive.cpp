#include "offload/plan/passive.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parbuckle/units.h"

#include "offload/plan/assemble.h"
#include "offload/plan/bound.h"
#include "offload/plan/candidates.h"
#include "offload/plan/simulate.h"
#include "offload/plan/workload_check.h"

namespace parbuckle {
namespace {

using NamedSpan = std::pair<std::string, std::int32_t>;  // span, micro-batch

struct Fixed {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

// One arena of the surroundings.
struct Ground {
  std::map<NamedSpan, Fixed> fixed;  // what stays where it is
  std::int64_t arena = 0;
  std::int64_t base = 0;  // end of what stays
  [[nodiscard]] std::int64_t room() const { return arena - base; }
};

class PassivePlanner {
 public:
  PassivePlanner(const Workload& workload,
                 const Hardware& hardware,
                 std::span<const Surroundings> around)
      : workload_(workload), hardware_(hardware), around_(around) {}

  Result<Plan> run() {
    PARBUCKLE_TRY(check_workload(workload_));
    PARBUCKLE_ASSIGN(seconds_, family_seconds(workload_, hardware_));
    for (const Surroundings& around : around_) {
      collect_fixed(around);
      host_.arena = std::max(host_.arena, around.plan->host_arena_bytes);
      device_.arena = std::max(device_.arena, around.plan->device_arena_bytes);
    }
    if (beside_device()) {
      const Budgets& budgets = around_.front().plan->budgets;
      host_.arena = std::max(host_.arena, host_capacity(budgets));
    }
    PARBUCKLE_TRY(same_blocks());
    std::optional<Plan> best;
    for (Choice choice : base_choices(workload_, Forced{}, {WaitsIn::nvme})) {
      choice.resident = resident_;
      choice.hosted = hosted_;
      for (const std::int32_t prefetch : {0, 1, 4, 16}) {
        choice.prefetch = prefetch;
        PARBUCKLE_ASSIGN(std::optional<Plan> made, plan_in(choice));
        if (made && (!best || made->predicted.step_s < best->predicted.step_s)) {
          best = std::move(made);
        }
      }
    }
    if (!best) {
      return exhausted((beside_device() ? "device memory: " : "host memory: ") + workload_.name +
                       " needs " + format_size(least_) + " beside what stays in memory, " +
                       format_size(compute().room()) + " are left");
    }
    best->bound = bound_of_plan(*best, seconds_, hardware_);
    best->reasons = {"in the memory of " + around_.front().workload->name + ", above the " +
                     format_size(compute().base) + " that stay"};
    return std::move(*best);
  }

 private:
  // Beside a device the host's arena is not yet taken: it may grow up to the budget.
  static std::int64_t host_capacity(const Budgets& budgets) {
    return budgets.host_bytes < 0 ? std::numeric_limits<std::int64_t>::max() / 4
                                  : budgets.host_bytes - budgets.host_reserve_bytes;
  }

  [[nodiscard]] bool beside_device() const { return device_.arena > 0; }
  [[nodiscard]] const Ground& compute() const { return beside_device() ? device_ : host_; }
  Ground& ground(Tier tier) { return tier == Tier::device ? device_ : host_; }

  // What must not be touched: all that is always in memory, except gradients that wait for an update.
  void collect_fixed(const Surroundings& around) {
    for (const Allocation& a : around.plan->allocations) {
      if (!a.resident || !a.span.valid()) {
        continue;
      }
      const Span& span = around.workload->spans[a.span.index()];
      const Block& first = around.workload->blocks[span.blocks.front().index()];
      const bool waits = first.role == Role::gradient || first.role == Role::sparse_gradient;
      if (waits && !first.pinned) {
        continue;
      }
      Ground& in = ground(a.tier);
      in.fixed.try_emplace({span.name, a.micro_batch}, Fixed{a.offset, a.bytes});
      in.base = std::max(in.base, a.offset + a.bytes);
    }
  }

  Status same_blocks() {
    std::map<std::string, std::int64_t> known;
    for (const Surroundings& around : around_) {
      for (const Block& block : around.workload->blocks) {
        known.try_emplace(block.name, block.bytes);
      }
    }
    for (std::size_t s = 0; s < workload_.spans.size(); ++s) {
      const Span& span = workload_.spans[s];
      bool persistent = false;
      for (const BlockId id : span.blocks) {
        const Block& block = workload_.blocks[id.index()];
        const auto other = known.find(block.name);
        persistent = persistent || block.persistent;
        if (block.persistent && other != known.end() && other->second != block.bytes) {
          return invalid("block " + block.name + ": " + format_size(block.bytes) + " in " +
                         workload_.name + ", " + format_size(other->second) + " in " +
                         around_.front().workload->name);
        }
      }
      const NamedSpan name{span.name, -1};
      if (persistent && compute().fixed.contains(name)) {
        resident_.push_back(SpanId(s));
      } else if (persistent && host_.fixed.contains(name)) {
        hosted_.push_back(SpanId(s));
      }
    }
    return Status();
  }

  [[nodiscard]] const Fixed* fixed_place(const Visit& visit, const Ground& in) const {
    if (!visit.resident || !visit.span.valid()) {
      return nullptr;
    }
    const auto found = in.fixed.find({workload_.spans[visit.span.index()].name, visit.micro_batch});
    const bool fits = found != in.fixed.end() && found->second.bytes >= visit.bytes;
    return fits ? &found->second : nullptr;
  }

  // Addresses: fixed visits where `around` has them, all others packed above.
  std::optional<Placement> place_around(const Schedule& made,
                                        const Ground& in,
                                        std::int32_t tasks,
                                        std::int64_t ahead) {
    Schedule movable;
    std::vector<std::size_t> position;
    for (std::size_t v = 0; v < made.visits.size(); ++v) {
      if (fixed_place(made.visits[v], in) == nullptr) {
        position.push_back(v);
        movable.visits.push_back(made.visits[v]);
      }
    }
    const Placement above = place(movable, tasks, in.room(), ahead);
    if (above.arena_bytes > in.room()) {
      least_ = std::min(least_, above.arena_bytes);
      return std::nullopt;
    }
    Placement all;
    all.offset.resize(made.visits.size());
    for (std::size_t i = 0; i < position.size(); ++i) {
      all.offset[position[i]] = in.base + above.offset[i];
    }
    for (std::size_t v = 0; v < made.visits.size(); ++v) {
      if (const Fixed* const fixed = fixed_place(made.visits[v], in)) {
        all.offset[v] = fixed->offset;
      }
      all.arena_bytes = std::max(all.arena_bytes, all.offset[v] + made.visits[v].bytes);
    }
    return all;
  }

  Result<std::optional<Plan>> plan_in(const Choice& choice) {
    const std::vector<ChainTask> chain = expand(workload_, choice);
    const UseTable uses = collect_uses(workload_, chain, choice.by_stage);
    PARBUCKLE_ASSIGN(const Schedule made, schedule(workload_, choice, chain, uses));
    const auto tasks = static_cast<std::int32_t>(chain.size());
    const std::int64_t ahead = choice.prefetch * visit_traffic_bytes(made, uses);
    const std::optional<Placement> placement = place_around(made, compute(), tasks, ahead);
    if (!placement) {
      return std::optional<Plan>();
    }
    Plan plan;
    if (beside_device()) {
      const Staging staging = stage(workload_, choice, chain, uses, made);
      const std::int64_t host_ahead = choice.prefetch * visit_traffic_bytes(staging.host, uses);
      const std::optional<Placement> host = place_around(staging.host, host_, tasks, host_ahead);
      if (!host) {
        return std::optional<Plan>();
      }
      const HostSide side{staging, *host};
      plan = assemble(workload_, choice, chain, made, *placement, &side);
    } else {
      plan = assemble(workload_, choice, chain, made, *placement);
    }
    plan.budgets = around_.front().plan->budgets;
    PARBUCKLE_ASSIGN(plan.predicted, simulate(plan, seconds_, hardware_));
    return std::optional<Plan>(std::move(plan));
  }

  const Workload& workload_;
  const Hardware& hardware_;
  std::span<const Surroundings> around_;
  FamilySeconds seconds_;
  Ground host_;
  Ground device_;
  std::vector<SpanId> resident_;
  std::vector<SpanId> hosted_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

Result<Plan> plan_passive(const Workload& workload,
                          const Hardware& hardware,
                          std::span<const Surroundings> around) {
  return PassivePlanner(workload, hardware, around).run();
}

Result<Plan> plan_passive(const Workload& workload,
                          const Hardware& hardware,
                          const Surroundings& around) {
  return plan_passive(workload, hardware, std::span(&around, 1));
}

}  // namespace parbuckle
