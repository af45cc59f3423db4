#include "offload/plan/strategies/layer_dp.h"

#include <chrono>
#include <iostream>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tests/offload/plan/chain/cases.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

std::int64_t cost_of(const LayerStrategyProblem& p,
                     const std::vector<std::int32_t>& choice,
                     std::int64_t* memory) {
  std::int64_t cost = 0;
  *memory = 0;
  for (std::size_t layer = 0; layer < choice.size(); ++layer) {
    const auto now = static_cast<std::size_t>(choice[layer]);
    cost += p.time[layer][now];
    *memory += p.memory[layer][now];
    if (layer > 0) {
      cost +=
          p.transfer[static_cast<std::size_t>(choice[layer - 1])][now] * p.transfer_scale[layer];
    }
  }
  return cost;
}

LayerStrategyProblem random_problem(std::mt19937& random,
                                    std::size_t layers,
                                    std::size_t strategies) {
  const auto below = [&random](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  LayerStrategyProblem p;
  p.transfer.resize(strategies);
  for (std::size_t s = 0; s < strategies; ++s) {
    for (std::size_t t = 0; t < strategies; ++t) {
      p.transfer[s].push_back(s == t ? 0 : below(50));
    }
  }
  for (std::size_t layer = 0; layer < layers; ++layer) {
    p.time.emplace_back();
    p.memory.emplace_back();
    p.transfer_scale.push_back(below(3));
    for (std::size_t s = 0; s < strategies; ++s) {
      p.time[layer].push_back(below(100));
      p.memory[layer].push_back(below(12));  // zero included: the case an in-place table gets wrong
    }
  }
  p.budget = below(static_cast<std::uint32_t>(6 * layers));
  return p;
}

std::int64_t by_enumeration(const LayerStrategyProblem& p) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int32_t> choice(p.time.size(), 0);
  while (true) {
    std::int64_t memory = 0;
    const std::int64_t cost = cost_of(p, choice, &memory);
    best = memory <= p.budget ? std::min(best, cost) : best;
    std::size_t layer = 0;
    while (layer < choice.size() &&
           ++choice[layer] == static_cast<std::int32_t>(p.transfer.size())) {
      choice[layer++] = 0;
    }
    if (layer == choice.size()) {
      return best;
    }
  }
}

TEST(LayerStrategies, EqualsEnumerationAndNeverWorsensWithMemory) {
  std::mt19937 random(7);
  int infeasible = 0;
  for (int i = 0; i < 500; ++i) {
    LayerStrategyProblem p = random_problem(random, 1 + random() % 5, 2 + random() % 4);
    const std::int64_t best = by_enumeration(p);
    const Result<LayerStrategies> found = solve_layer_strategies(p);
    if (best == std::numeric_limits<std::int64_t>::max()) {
      ++infeasible;
      EXPECT_EQ(found.status().code(), Code::resource_exhausted);
      continue;
    }
    ASSERT_TRUE(found.ok()) << found.status().message();
    std::int64_t memory = 0;
    EXPECT_EQ(cost_of(p, found->strategy, &memory), found->cost);
    EXPECT_EQ(memory, found->memory);
    EXPECT_LE(memory, p.budget);
    EXPECT_EQ(found->cost, best);
    p.budget += 5;
    EXPECT_LE(solve_layer_strategies(p)->cost, best);
  }
  EXPECT_GT(infeasible, 5);
  EXPECT_LT(infeasible, 250);
}

TEST(LayerStrategies, EqualsTheRecordedOptima) {
  PARBUCKLE_NEEDS_SHARED("planner_cases/strategy_dp.jsonl");
  int equal = 0;
  int feasible = 0;
  for (const nlohmann::json& row :
       chain::json_lines(shared_file("planner_cases/strategy_dp.jsonl"))) {
    LayerStrategyProblem p;
    p.budget = row.at("budget");
    p.time = row.at("time").get<std::vector<std::vector<std::int64_t>>>();
    p.memory = row.at("memory").get<std::vector<std::vector<std::int64_t>>>();
    p.transfer = row.at("switch").get<std::vector<std::vector<std::int64_t>>>();
    p.transfer_scale = row.at("switch_scale").get<std::vector<std::int64_t>>();
    const Result<LayerStrategies> found = solve_layer_strategies(p);
    const nlohmann::json& result = row.at("result");
    ASSERT_EQ(found.ok(), result.at("feasible").get<bool>()) << row.at("id");
    if (found.ok()) {
      ++feasible;
      EXPECT_EQ(found->cost, result.at("optimum").get<std::int64_t>()) << row.at("id");
    }
    ++equal;
  }
  EXPECT_EQ(equal, 60);
  EXPECT_EQ(feasible, 55);
}

TEST(LayerStrategies, FortyEightUnitsOfTwelveStrategiesInTime) {
  std::mt19937 random(11);
  LayerStrategyProblem p = random_problem(random, 48, 12);
  p.budget = 200;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(solve_layer_strategies(p).ok());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::cout << "48 layers x 12 strategies: " << seconds << " s\n";
  EXPECT_LT(seconds, 2.0);
}

TEST(LayerStrategies, RefusesUnevenRows) {
  LayerStrategyProblem p;
  p.time = {{1, 2}};
  p.memory = {{1}};
  p.transfer = {{0, 0}, {0, 0}};
  p.transfer_scale = {0};
  EXPECT_EQ(solve_layer_strategies(p).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace parbuckle
