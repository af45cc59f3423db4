#include "offload/plan/chain/planner.h"

#include <algorithm>
#include <string>

#include "offload/plan/chain/search.h"
#include "offload/plan/chain/starts.h"

namespace parbuckle::chain {
namespace {

constexpr std::size_t kept_starts = 6;

struct Origin {
  std::int64_t cost = 0;
  std::vector<GapChoice> choices;
};

std::vector<std::int64_t> begins_without_waits(const Problem& problem) {
  std::vector<std::int64_t> begins;
  std::int64_t now = 0;
  for (const Task& task : problem.tasks) {
    begins.push_back(now);
    now += task.duration_us;
  }
  return begins;
}

void keep(std::vector<Origin>& origins, std::int64_t cost, const std::vector<GapChoice>& choices) {
  const auto same = [cost](const Origin& origin) { return origin.cost == cost; };
  if (std::none_of(origins.begin(), origins.end(), same)) {
    origins.push_back({cost, choices});
  }
}

// Every rule twice: with the times of a schedule that never waits, then with those of its own simulation.
std::vector<Origin> greedy_origins(const Problem& problem, Search& search) {
  const Draft empty = search.draft();
  std::vector<Origin> origins;
  const std::vector<GapChoice> demand = make_demand_start(empty);
  keep(origins, search.restart(demand).cost, demand);
  const std::vector<std::int64_t> ideal = begins_without_waits(problem);
  for (const StartRule& rule : start_rules()) {
    std::vector<std::int64_t> begins = ideal;
    for (std::int32_t round = 0; round < 3; ++round) {
      const std::vector<GapChoice> choices = make_start(problem, empty, rule, begins);
      const Score score = search.restart(choices);
      keep(origins, score.cost, choices);
      if (!score.outcome.feasible()) {
        break;
      }
      begins = search.starts();
    }
  }
  std::sort(origins.begin(), origins.end(), [](const Origin& a, const Origin& b) {
    return a.cost < b.cost;
  });
  origins.resize(std::min(origins.size(), kept_starts));
  return origins;
}

constexpr std::int64_t trials_a_cycle = 20'000;

// A short walk from each origin, then longer ones, hot and cool in turn: two from the best, one from another origin.
void improve(Search& search,
             const std::vector<Origin>& origins,
             std::int64_t events,
             std::int64_t enough) {
  const std::int64_t from = search.events();
  const auto count = static_cast<std::int64_t>(origins.size());
  for (std::int64_t i = 0; i < count; ++i) {
    search.restart(origins[static_cast<std::size_t>(i)].choices);
    search.walk(from + (events - from) * (i + 1) / 24, 0.006, enough);
  }
  const std::int64_t begun = search.events();
  const std::int64_t a_trial = std::max<std::int64_t>(1, begun / search.trials());
  const std::int64_t cycles =
      std::clamp<std::int64_t>((events - begun) / (a_trial * trials_a_cycle), 3, 30);
  for (std::int64_t cycle = 0; cycle < cycles; ++cycle) {
    const bool elsewhere = cycles >= 6 && cycle % 3 == 2;  // long chains have no time for it
    const bool hot = cycle % 3 == 0;
    search.restart(elsewhere ? origins[static_cast<std::size_t>(cycle / 3 % count)].choices
                             : search.best_choices());
    search.walk(begun + (events - begun) * (cycle + 1) / cycles,
                elsewhere ? 0.02 : (hot ? 0.01 : 0.002),
                enough);
  }
}

}  // namespace

Result<Planned> plan_chain(const Problem& problem, Start start, const SearchLimits& limits) {
  Planned planned;
  planned.lower_bound_us = lower_bound_us(problem, start);
  Search search(problem, start, 1);
  const std::vector<Origin> origins = greedy_origins(problem, search);
  planned.start_makespan_us = search.best().outcome.makespan_us;
  improve(search, origins, limits.events, planned.lower_bound_us);
  planned.trials = search.trials();
  if (!search.best().outcome.feasible()) {
    return exhausted("chain " + problem.id + ": no plan was found for " +
                     std::to_string(problem.fast_capacity) + " bytes of fast memory");
  }
  search.restart(search.best_choices());
  planned.plan = search.draft().plan();
  planned.outcome = search.best().outcome;
  return planned;
}

}  // namespace parbuckle::chain
