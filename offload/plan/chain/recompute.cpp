#include "offload/plan/chain/recompute.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

namespace parbuckle::chain {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

class SetSearch {
 public:
  SetSearch(const Problem& problem, Start start) : problem_(problem), start_(start) {
    try_set(std::vector<bool>(problem.recompute.size(), false));
  }

  [[nodiscard]] std::vector<std::int32_t> best() const { return indices(best_); }

  // The first shares of two orders: cheapest time per byte that leaves, and earliest produced (kept longest).
  void try_shares() {
    std::vector<std::size_t> order(problem_.recompute.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto length = [this](std::size_t i) {
      return problem_.recompute[i].before - problem_.recompute[i].producer;
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return price(a) < price(b);
    });
    try_prefixes(order);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return length(a) > length(b);
    });
    try_prefixes(order);
  }

  // Flips runs of neighbours in the order of tasks: halves, quarters, eighths, sixteenths.
  void try_runs() {
    const std::size_t count = problem_.recompute.size();
    for (std::size_t parts = 2; parts <= 16 && parts <= count; parts *= 2) {
      for (std::size_t part = 0; part < parts; ++part) {
        std::vector<bool> set = best_;
        for (std::size_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
          set[i] = !set[i];
        }
        try_set(std::move(set));
      }
    }
  }

 private:
  [[nodiscard]] double price(std::size_t i) const {
    const Recompute& it = problem_.recompute[i];
    return static_cast<double>(it.duration_us) /
           static_cast<double>(problem_.objects[at(it.object)].bytes);
  }

  static std::vector<std::int32_t> indices(const std::vector<bool>& set) {
    std::vector<std::int32_t> chosen;
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (set[i]) {
        chosen.push_back(static_cast<std::int32_t>(i));
      }
    }
    return chosen;
  }

  void try_prefixes(const std::vector<std::size_t>& order) {
    for (const std::size_t eighths : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
      std::vector<bool> set(order.size(), false);
      for (std::size_t i = 0; i < order.size() * eighths / 8; ++i) {
        set[order[i]] = true;
      }
      try_set(std::move(set));
    }
  }

  void try_set(std::vector<bool> set) {
    const Problem changed = with_recompute(problem_, indices(set));
    const Result<Planned> planned = plan_chain(changed, start_, {0});
    const std::int64_t makespan = planned.ok() ? planned->outcome.makespan_us : never;
    if (best_.empty() || makespan < makespan_) {
      makespan_ = makespan;
      best_ = std::move(set);
    }
  }

  const Problem& problem_;
  Start start_;
  std::vector<bool> best_;
  std::int64_t makespan_ = never;
};

}  // namespace

Result<RecomputePlanned> plan_chain_with_recompute(const Problem& problem,
                                                   Start start,
                                                   const SearchLimits& limits) {
  std::vector<std::int32_t> chosen;
  if (!problem.recompute.empty()) {
    SetSearch sets(problem, start);
    sets.try_shares();
    sets.try_runs();
    chosen = sets.best();
  }
  const SearchLimits half{limits.events / 2};
  Result<Planned> plain = plan_chain(problem, start, half);
  Result<Planned> changed = plan_chain(with_recompute(problem, chosen), start, half);
  if (!plain.ok() && !changed.ok()) {
    return plain.status();
  }
  if (!changed.ok() || (plain.ok() && plain->outcome.makespan_us <= changed->outcome.makespan_us)) {
    return RecomputePlanned{{}, std::move(plain).value()};
  }
  return RecomputePlanned{chosen, std::move(changed).value()};
}

}  // namespace parbuckle::chain
