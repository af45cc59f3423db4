#include "offload/plan/strategies/layer_dp.h"

#include <algorithm>
#include <string>

namespace parbuckle {
namespace {

// A prefix of layers that no other prefix with the same last strategy beats in both memory and cost.
struct Prefix {
  std::int64_t memory = 0;
  std::int64_t cost = 0;
  std::int32_t strategy_before = -1;
  std::int32_t prefix_before = -1;  // index in the front of strategy_before
};
using Front = std::vector<Prefix>;
using Fronts = std::vector<Front>;  // [last strategy]

void keep_pareto(Front& front) {
  std::sort(front.begin(), front.end(), [](const Prefix& a, const Prefix& b) {
    return a.memory != b.memory ? a.memory < b.memory : a.cost < b.cost;
  });
  Front kept;
  for (const Prefix& prefix : front) {
    if (kept.empty() || prefix.cost < kept.back().cost) {
      kept.push_back(prefix);
    }
  }
  front = std::move(kept);
}

Front extend(const LayerStrategyProblem& problem,
             const Fronts& before,
             std::size_t layer,
             std::size_t strategy) {
  Front front;
  for (std::size_t last = 0; last < before.size(); ++last) {
    const std::int64_t cost = problem.time[layer][strategy] +
                              problem.transfer[last][strategy] * problem.transfer_scale[layer];
    for (std::size_t i = 0; i < before[last].size(); ++i) {
      const std::int64_t memory = before[last][i].memory + problem.memory[layer][strategy];
      if (memory > problem.budget) {
        break;  // fronts ascend in memory
      }
      front.push_back({memory,
                       before[last][i].cost + cost,
                       static_cast<std::int32_t>(last),
                       static_cast<std::int32_t>(i)});
    }
  }
  keep_pareto(front);
  return front;
}

LayerStrategies trace(const std::vector<Fronts>& table, std::size_t strategy) {
  LayerStrategies result;
  std::size_t prefix = table.back()[strategy].size() - 1;  // the last of a front is the cheapest
  result.cost = table.back()[strategy][prefix].cost;
  result.memory = table.back()[strategy][prefix].memory;
  for (std::size_t layer = table.size(); layer-- > 0;) {
    result.strategy.push_back(static_cast<std::int32_t>(strategy));
    const Prefix& at = table[layer][strategy][prefix];
    strategy = static_cast<std::size_t>(at.strategy_before);
    prefix = static_cast<std::size_t>(at.prefix_before);
  }
  std::reverse(result.strategy.begin(), result.strategy.end());
  return result;
}

Status check(const LayerStrategyProblem& problem) {
  const std::size_t strategies = problem.transfer.size();
  const auto sized = [strategies](const std::vector<std::int64_t>& row) {
    return row.size() == strategies &&
           std::all_of(row.begin(), row.end(), [](std::int64_t v) { return v >= 0; });
  };
  const bool rows = std::all_of(problem.time.begin(), problem.time.end(), sized) &&
                    std::all_of(problem.memory.begin(), problem.memory.end(), sized) &&
                    std::all_of(problem.transfer.begin(), problem.transfer.end(), sized);
  const std::size_t layers = problem.time.size();
  if (layers == 0 || strategies == 0 || !rows || problem.memory.size() != layers ||
      problem.transfer_scale.size() != layers) {
    return invalid(
        "layer strategies: time and memory need one row per layer and one non-negative number per "
        "strategy");
  }
  return {};
}

}  // namespace

Result<LayerStrategies> solve_layer_strategies(const LayerStrategyProblem& problem) {
  PARBUCKLE_TRY(check(problem));
  const std::size_t strategies = problem.transfer.size();
  std::vector<Fronts> table(problem.time.size(), Fronts(strategies));
  for (std::size_t s = 0; s < strategies; ++s) {
    if (problem.memory[0][s] <= problem.budget) {
      table[0][s].push_back({problem.memory[0][s], problem.time[0][s]});
    }
  }
  for (std::size_t layer = 1; layer < table.size(); ++layer) {
    for (std::size_t s = 0; s < strategies; ++s) {
      table[layer][s] = extend(problem, table[layer - 1], layer, s);
    }
  }
  std::size_t best = strategies;
  for (std::size_t s = 0; s < strategies; ++s) {
    const Front& front = table.back()[s];
    if (!front.empty() &&
        (best == strategies || front.back().cost < table.back()[best].back().cost)) {
      best = s;
    }
  }
  if (best == strategies) {
    std::int64_t least = 0;
    for (const std::vector<std::int64_t>& row : problem.memory) {
      least += *std::min_element(row.begin(), row.end());
    }
    return exhausted("layer strategies: the smallest choice needs " + std::to_string(least) +
                     " units of memory, the budget is " + std::to_string(problem.budget));
  }
  return trace(table, best);
}

}  // namespace parbuckle
