#include "offload/plan/planner.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parbuckle/units.h"

#include "offload/plan/bound.h"
#include "offload/plan/evaluate.h"
#include "offload/plan/reasons.h"
#include "offload/plan/workload_check.h"

namespace parbuckle {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max() / 4;

Capacity capacity_of(const Budgets& budgets, bool device) {
  const std::int64_t host =
      budgets.host_bytes < 0 ? unlimited : budgets.host_bytes - budgets.host_reserve_bytes;
  if (!device) {
    return {.compute = host, .host = 0};
  }
  return {.compute = budgets.device_bytes < 0 ? unlimited : budgets.device_bytes, .host = host};
}

// Where what leaves compute memory may go.
std::vector<WaitsIn> lower_places(const Evaluator& evaluator) {
  if (!evaluator.has_device()) {
    return {WaitsIn::nvme};
  }
  return evaluator.has_drive() ? std::vector<WaitsIn>{WaitsIn::host, WaitsIn::nvme}
                               : std::vector<WaitsIn>{WaitsIn::host};
}

// Shorter step; where steps are equal, fewer bytes, then a smaller arena.
bool better(const Plan& a, const Plan& b) {
  constexpr double same = 1e-6;
  const double difference = a.predicted.step_s - b.predicted.step_s;
  if (std::abs(difference) > same * b.predicted.step_s) {
    return difference < 0;
  }
  const std::int64_t bytes_a = moved_bytes(a);
  const std::int64_t bytes_b = moved_bytes(b);
  return bytes_a != bytes_b ? bytes_a < bytes_b : a.host_arena_bytes < b.host_arena_bytes;
}

// Who may run the updates, of all weights at first.
std::vector<LaneKind> update_lanes(const Workload& workload,
                                   const Forced& forced,
                                   const Evaluator& evaluator) {
  if (forced.updates) {
    return {*forced.updates};
  }
  const bool host = evaluator.has_host_lane() && !host_updatable(workload).empty();
  return host ? std::vector<LaneKind>{LaneKind::compute, LaneKind::host_compute}
              : std::vector<LaneKind>{LaneKind::compute};
}

using Base = Room::Base;

Result<std::vector<Base>> measure_bases(const Workload& workload,
                                        const Forced& forced,
                                        Evaluator& evaluator) {
  PARBUCKLE_TRY(check_forced(workload, forced));
  if (forced.updates == LaneKind::host_compute && !evaluator.has_host_lane()) {
    return invalid(
        "--optimizer-device cpu: needs a device with memory of its own and cores of the host "
        "beside it");
  }
  std::vector<Base> bases;
  for (const LaneKind lane : update_lanes(workload, forced, evaluator)) {
    for (Choice& choice : base_choices(workload, forced, lower_places(evaluator))) {
      if (lane == LaneKind::host_compute) {
        choice.host_updates = host_updatable(workload);
      }
      PARBUCKLE_ASSIGN(const std::int64_t arena, evaluator.least_arena(choice));
      PARBUCKLE_ASSIGN(const std::int64_t host, evaluator.least_host(choice));
      bases.push_back({std::move(choice), arena, host});
    }
  }
  return bases;
}

std::int64_t least_compute_memory(const std::vector<Base>& bases) {
  std::int64_t least = unlimited;
  for (const Base& base : bases) {
    least = std::min(least, base.least_arena);
  }
  return least;
}

// Beside a device: of the choices that fit in it.
std::int64_t smallest_host(const std::vector<Base>& bases,
                           const Budgets& budgets,
                           const Evaluator& evaluator) {
  const bool device = evaluator.has_device();
  const std::int64_t compute = capacity_of(budgets, device).compute;
  std::int64_t least = unlimited;
  for (const Base& base : bases) {
    if (!device || base.least_arena <= compute) {
      least = std::min(least, device ? base.least_host : base.least_arena);
    }
  }
  return round_up(least + budgets.host_reserve_bytes, mib);
}

class Search {
 public:
  Search(const Workload& workload,
         const Budgets& budgets,
         const Forced& forced,
         Evaluator& evaluator)
      : workload_(workload),
        budgets_(budgets),
        forced_(forced),
        evaluator_(evaluator),
        capacity_(capacity_of(budgets, evaluator.has_device())) {}

  Status run(const std::vector<Base>& bases) {
    PARBUCKLE_TRY(try_bases(bases));
    PARBUCKLE_TRY(tune_memory());
    PARBUCKLE_TRY(tune_units());
    PARBUCKLE_TRY(tune_updates());
    return tune_memory();
  }

  [[nodiscard]] const std::optional<Plan>& best() const { return best_; }
  [[nodiscard]] const Alternatives& tried() const { return tried_; }
  [[nodiscard]] std::int64_t least_pool() const { return least_pool_; }
  [[nodiscard]] std::int64_t least_written() const { return least_written_; }

 private:
  // Every base choice once, with room for two visits left unpinned; the few best go on.
  Status try_bases(const std::vector<Base>& bases) {
    for (const Base& base : bases) {
      if (base.least_arena > capacity_.compute || base.least_host > capacity_.host ||
          hopeless(base.choice)) {
        continue;
      }
      PARBUCKLE_TRY(try_pinned(base.choice, 2).status());
    }
    std::stable_sort(leads_.begin(), leads_.end(), [](const Lead& a, const Lead& b) {
      return a.step_s < b.step_s;
    });
    constexpr std::size_t kept = 3;
    leads_.resize(std::min(leads_.size(), kept));
    return Status();
  }

  // Its compute alone takes longer than the best plan.
  bool hopeless(const Choice& choice) {
    return best_ && evaluator_.compute_seconds(choice) > best_->predicted.step_s;
  }

  struct Lead {
    double step_s = 0;
    Choice choice;
  };

  // Pins, plans, scores. True if it is the best so far.
  Result<bool> try_pinned(const Choice& choice, std::int64_t slack_visits) {
    PARBUCKLE_ASSIGN(const std::int64_t visit, evaluator_.visit_traffic(choice));
    Choice with = choice;
    with.resident.clear();
    with.hosted.clear();
    if (forced_.pin) {
      PARBUCKLE_ASSIGN(with, evaluator_.pinned(choice, capacity_.compute, slack_visits * visit));
    }
    if (evaluator_.has_device()) {
      PARBUCKLE_ASSIGN(with, evaluator_.hosted(with, capacity_.host, slack_visits * visit));
    }
    PARBUCKLE_ASSIGN(std::optional<Plan> made, evaluator_.plan_in(with, capacity_));
    if (!made) {
      return false;
    }
    least_pool_ = std::min(least_pool_, made->nvme_pool_bytes);
    std::int64_t written = 0;
    for (const RoleBytes& role : made->bytes) {
      written += role.written;
    }
    least_written_ = std::min(least_written_, written);
    const std::int64_t worn = budgets_.written_bytes_per_step;
    if ((budgets_.nvme_bytes >= 0 && made->nvme_pool_bytes > budgets_.nvme_bytes) ||
        (worn >= 0 && written > worn)) {
      return false;
    }
    tried_.note(workload_, *made);
    leads_.push_back({made->predicted.step_s, choice});
    if (best_ && !better(*made, *best_)) {
      return false;
    }
    best_ = std::move(made);
    return true;
  }

  // How much memory to leave for fetching ahead, and how far ahead.
  Status tune_memory() {
    std::vector<Lead> leads = std::exchange(leads_, {});
    for (const Lead& lead : leads) {
      for (const std::int64_t slack : {0, 1, 4, 8}) {
        PARBUCKLE_TRY(try_pinned(lead.choice, slack).status());
      }
    }
    if (best_ && !forced_.prefetch) {
      const Choice from = best_->choice;
      for (const std::int32_t prefetch : {1, 2, 8, 16}) {
        Choice choice = from;
        choice.prefetch = prefetch;
        PARBUCKLE_TRY(try_pinned(choice, 2).status());
      }
    }
    return Status();
  }

  // Lets the last units change their policy, first many, then few, as long as the step gets shorter: keeping pays most
  // where memory is held the shortest.
  Status tune_units() {
    if (!best_ || forced_.activations || workload_.phase != Phase::train) {
      return Status();
    }
    using P = ActivationPolicy;
    const std::vector<std::pair<P, P>> moves{{P::recompute, P::keep},
                                             {P::spill, P::keep},
                                             {P::recompute, P::spill},
                                             {P::spill, P::recompute},
                                             {P::keep, P::recompute}};
    for (const auto& [from, to] : moves) {
      std::size_t many = count(best_->choice, from);
      while (many > 0) {
        Choice choice = best_->choice;
        change_last(choice, from, to, many);
        PARBUCKLE_ASSIGN(const bool helped, try_pinned(choice, 2));
        many = helped ? std::min(many, count(best_->choice, from)) : many / 2;
      }
    }
    return Status();
  }

  // Gives updates to the other lane, first many, then few, from the first weights and from the last, as long as the step gets
  // shorter.
  Status tune_updates() {
    if (!best_ || forced_.updates || !evaluator_.has_host_lane()) {
      return Status();
    }
    const std::vector<SpanId> all = host_updatable(workload_);
    for (const bool to_host : {false, true}) {
      for (const bool from_first : {true, false}) {
        std::size_t many = updates_on(best_->choice, all, !to_host).size();
        while (many > 0) {
          Choice choice = best_->choice;
          std::vector<SpanId> moved = updates_on(choice, all, !to_host);
          moved = from_first ? std::vector<SpanId>(moved.begin(), moved.begin() + ptrdiff(many))
                             : std::vector<SpanId>(moved.end() - ptrdiff(many), moved.end());
          std::vector<SpanId> host;
          if (to_host) {
            std::set_union(choice.host_updates.begin(),
                           choice.host_updates.end(),
                           moved.begin(),
                           moved.end(),
                           std::back_inserter(host));
          } else {
            std::set_difference(choice.host_updates.begin(),
                                choice.host_updates.end(),
                                moved.begin(),
                                moved.end(),
                                std::back_inserter(host));
          }
          choice.host_updates = std::move(host);
          PARBUCKLE_ASSIGN(const bool helped, try_pinned(choice, 2));
          many =
              helped ? std::min(many, updates_on(best_->choice, all, !to_host).size()) : many / 2;
        }
      }
    }
    return Status();
  }

  static std::ptrdiff_t ptrdiff(std::size_t count) { return static_cast<std::ptrdiff_t>(count); }

  // Of `all`, sorted.
  static std::vector<SpanId> updates_on(const Choice& choice,
                                        const std::vector<SpanId>& all,
                                        bool host) {
    std::vector<SpanId> found;
    for (const SpanId span : all) {
      if (std::binary_search(choice.host_updates.begin(), choice.host_updates.end(), span) ==
          host) {
        found.push_back(span);
      }
    }
    return found;
  }

  std::size_t count(const Choice& choice, ActivationPolicy policy) const {
    std::size_t units = 0;
    for (std::size_t u = 0; u < workload_.units.size(); ++u) {
      units += policy_of(workload_, u, choice) == policy ? 1U : 0U;
    }
    return units;
  }

  void change_last(Choice& choice,
                   ActivationPolicy from,
                   ActivationPolicy to,
                   std::size_t many) const {
    for (std::size_t u = workload_.units.size(); u-- > 0 && many > 0;) {
      if (policy_of(workload_, u, choice) == from) {
        set_policy(workload_, u, to, lower_place(choice), choice);
        --many;
      }
    }
  }

  const Workload& workload_;
  const Budgets& budgets_;
  const Forced& forced_;
  Evaluator& evaluator_;
  Capacity capacity_;
  std::optional<Plan> best_;
  std::vector<Lead> leads_;
  Alternatives tried_;
  std::int64_t least_pool_ = unlimited;
  std::int64_t least_written_ = unlimited;
};

Status short_of_device(const Budgets& budgets, std::int64_t least) {
  const std::int64_t smallest = round_up(least, kib);
  return exhausted("device memory: " + format_size(budgets.device_bytes) + " is " +
                   format_size(smallest - budgets.device_bytes) +
                   " short; the smallest that works is " + std::to_string(smallest / kib) + "KiB");
}

Status short_of_host(const Budgets& budgets, std::int64_t smallest) {
  return exhausted("host memory: --host-memory " + format_size(budgets.host_bytes) + " is " +
                   format_size(smallest - budgets.host_bytes) + " short, " +
                   format_size(budgets.host_reserve_bytes) +
                   " of it are reserved for the process; the smallest that works is " +
                   std::to_string(smallest / mib) + "MiB");
}

Status short_of_drive(const Budgets& budgets, const Search& search) {
  if (budgets.nvme_bytes >= 0 && search.least_pool() > budgets.nvme_bytes) {
    const std::int64_t needed = round_up(search.least_pool(), mib);
    return exhausted("nvme: --nvme " + format_size(budgets.nvme_bytes) + " is " +
                     format_size(needed - budgets.nvme_bytes) +
                     " short with this host memory; the smallest that works is " +
                     std::to_string(needed / mib) + "MiB");
  }
  return exhausted("nvme writes: " + format_size(budgets.written_bytes_per_step) +
                   " a step are allowed, the plan that writes least needs " +
                   format_size(search.least_written()));
}

/// Without a drive everything stays in memory: the least of host memory that takes.
Result<std::int64_t> smallest_without_drive(const std::vector<Base>& bases,
                                            const Budgets& budgets,
                                            Evaluator& evaluator) {
  const bool device = evaluator.has_device();
  Capacity capacity{unlimited, unlimited};
  if (device) {
    capacity.compute = capacity_of(budgets, device).compute;
  }
  std::int64_t least = unlimited;
  for (const Base& base : bases) {
    if (base.least_arena > capacity.compute) {
      continue;
    }
    PARBUCKLE_ASSIGN(Choice all, evaluator.pinned(base.choice, capacity.compute, 0));
    if (device) {
      PARBUCKLE_ASSIGN(all, evaluator.hosted(all, capacity.host, 0));
    }
    PARBUCKLE_ASSIGN(const std::optional<Plan> made, evaluator.plan_in(all, capacity));
    least = made ? std::min(least, made->host_arena_bytes) : least;
  }
  return round_up(least + budgets.host_reserve_bytes, mib);
}

Status short_without_drive(const Budgets& budgets, std::int64_t smallest) {
  return exhausted("host memory: without --nvme-path everything stays in memory, which takes " +
                   std::to_string(smallest / mib) + "MiB; --host-memory " +
                   format_size(budgets.host_bytes) + " is " +
                   format_size(smallest - budgets.host_bytes) + " short");
}

}  // namespace

Result<std::int64_t> smallest_host_bytes(const Workload& workload,
                                         const Hardware& hardware,
                                         const Budgets& budgets,
                                         const Forced& forced) {
  PARBUCKLE_TRY(check_workload(workload));
  PARBUCKLE_ASSIGN(Evaluator evaluator, Evaluator::make(workload, hardware));
  PARBUCKLE_ASSIGN(const std::vector<Base> bases, measure_bases(workload, forced, evaluator));
  return smallest_host(bases, budgets, evaluator);
}

Result<std::int64_t> smallest_device_bytes(const Workload& workload,
                                           const Hardware& hardware,
                                           const Forced& forced) {
  PARBUCKLE_TRY(check_workload(workload));
  PARBUCKLE_ASSIGN(Evaluator evaluator, Evaluator::make(workload, hardware));
  PARBUCKLE_ASSIGN(const std::vector<Base> bases, measure_bases(workload, forced, evaluator));
  return evaluator.has_device() ? least_compute_memory(bases) : 0;
}

Result<Room> room_for(const Workload& workload,
                      const Hardware& hardware,
                      const Budgets& budgets,
                      const Forced& forced) {
  PARBUCKLE_TRY(check_workload(workload));
  PARBUCKLE_ASSIGN(Evaluator evaluator, Evaluator::make(workload, hardware));
  Room room;
  PARBUCKLE_ASSIGN(room.bases, measure_bases(workload, forced, evaluator));
  const std::int64_t compute = least_compute_memory(room.bases);
  if (evaluator.has_device() && budgets.device_bytes >= 0 && budgets.device_bytes < compute) {
    return short_of_device(budgets, compute);
  }
  room.smallest_host_bytes = smallest_host(room.bases, budgets, evaluator);
  if (budgets.host_bytes >= 0 && budgets.host_bytes < room.smallest_host_bytes) {
    return short_of_host(budgets, room.smallest_host_bytes);
  }
  return room;
}

Result<Plan> plan(const Workload& workload,
                  const Hardware& hardware,
                  const Budgets& budgets,
                  const Forced& forced) {
  PARBUCKLE_ASSIGN(const Room room, room_for(workload, hardware, budgets, forced));
  return plan(workload, hardware, budgets, forced, room);
}

Result<Plan> plan(const Workload& workload,
                  const Hardware& hardware,
                  const Budgets& budgets,
                  const Forced& forced,
                  const Room& room) {
  PARBUCKLE_ASSIGN(Evaluator evaluator, Evaluator::make(workload, hardware));
  Search search(workload, budgets, forced, evaluator);
  PARBUCKLE_TRY(search.run(room.bases));
  if (!search.best()) {
    if (!evaluator.has_drive()) {
      PARBUCKLE_ASSIGN(const std::int64_t resident,
                       smallest_without_drive(room.bases, budgets, evaluator));
      return short_without_drive(budgets, resident);
    }
    return short_of_drive(budgets, search);
  }
  Plan best = *search.best();
  best.budgets = budgets;
  best.smallest_host_bytes = room.smallest_host_bytes;
  best.bound = bound_of_plan(best, evaluator.seconds(), hardware);
  best.reasons = search.tried().reasons(workload, best);
  return best;
}

}  // namespace parbuckle
