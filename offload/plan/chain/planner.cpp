#include "offload/plan/chain/planner.h"

#include <algorithm>
#include <string>

#include "offload/plan/chain/search.h"
#include "offload/plan/chain/starts.h"

namespace parbuckle::chain {
namespace {

constexpr std::size_t kept_starts = 8;

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

void sort_by_cost(std::vector<Origin>& origins) {
  std::stable_sort(origins.begin(), origins.end(), [](const Origin& a, const Origin& b) {
    return a.cost < b.cost;
  });
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
  sort_by_cost(origins);
  origins.resize(std::min(origins.size(), kept_starts));
  return origins;
}

// Walks from every origin; the better half walk on, with more work each, until one is left; then from the best of all.
void improve(Search& search,
             std::vector<Origin> origins,
             std::int64_t events,
             std::int64_t enough) {
  const std::int64_t from = search.events();
  const double all = static_cast<double>(events - from);
  double done = 0;
  for (const double share : {0.25, 0.22, 0.18, 0.15}) {
    const double each = share / static_cast<double>(origins.size());
    for (Origin& origin : origins) {
      done += each;
      search.restart(origin.choices);
      search.walk(from + static_cast<std::int64_t>(all * done), 0.01, enough);
      origin = {search.current().cost, search.draft().choices()};
    }
    sort_by_cost(origins);
    origins.resize((origins.size() + 1) / 2);
  }
  for (const double heat : {0.004, 0.001}) {
    done += 0.1;
    search.restart(search.best_choices());
    search.walk(from + static_cast<std::int64_t>(all * done), heat, enough);
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
