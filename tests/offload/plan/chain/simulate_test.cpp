#include "offload/plan/chain/simulate.h"

#include <chrono>
#include <iostream>

#include <gtest/gtest.h>

#include "offload/plan/chain/planner.h"
#include "tests/offload/plan/chain/cases.h"
#include "tests/support/shared_path.h"

namespace parbuckle::chain {
namespace {

// Two weights of 10 bytes, room for one and a half: f0 reads a, f1 reads b, f2 reads a; one byte a microsecond.
Problem tiny() {
  Problem problem;
  problem.id = "tiny";
  problem.fast_capacity = 15;
  problem.objects = {{"a", 10, Home::backing, Home::none, "weight"},
                     {"b", 10, Home::backing, Home::none, "weight"}};
  problem.tasks = {{"f0", 5, {0}, {}, {}, 0}, {"f1", 5, {1}, {}, {}, 0}, {"f2", 5, {0}, {}, {}, 0}};
  return problem;
}

Plan streaming() {
  Plan plan;
  plan.preplaced = {0};
  plan.at.resize(4);
  plan.at[1] = {{0}, {}, {1}};
  plan.at[2] = {{1}, {}, {0}};
  return plan;
}

TEST(ChainSimulate, CountsByHand) {
  const Outcome outcome = judge(tiny(), streaming()).value();
  EXPECT_EQ(outcome.fault, Fault::none);
  EXPECT_EQ(outcome.makespan_us, 5 + 10 + 5 + 10 + 5);
  EXPECT_EQ(outcome.bytes_in, 20);
  EXPECT_EQ(outcome.peak_bytes, 10);
}

TEST(ChainSimulate, NamesFaults) {
  Plan plan = streaming();
  plan.at[1].release.clear();  // no room for b
  EXPECT_EQ(judge(tiny(), plan).value().fault, Fault::stuck);
  plan = streaming();
  plan.at[2].release = {0};
  EXPECT_EQ(judge(tiny(), plan).status().message(),
            "chain tiny: object 0 is unknown or named twice after task 2 - 1");
  plan = streaming();
  plan.at[1] = {{}, {0}, {1}};  // a was never changed
  EXPECT_EQ(judge(tiny(), plan).value().fault, Fault::offload_current);
  plan = streaming();
  plan.at[3].prefetch = {1};
  EXPECT_EQ(judge(tiny(), plan).value().fault, Fault::prefetch_unneeded);
  plan = streaming();
  plan.preplaced = {0, 1};
  EXPECT_EQ(judge(tiny(), plan).value().fault, Fault::capacity);
}

struct Replayed {
  std::int64_t plans = 0;
  std::int64_t events = 0;
  double seconds = 0;
};

void expect_equal(const Problem& problem,
                  const nlohmann::json& figures,
                  const nlohmann::json& plan,
                  Replayed& sum) {
  const Result<Plan> read = plan_from_json(plan.dump(), task_count(problem));
  ASSERT_TRUE(read.ok()) << read.status().message();
  const auto begin = std::chrono::steady_clock::now();
  const Result<Outcome> outcome = judge(problem, read.value());
  sum.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  ++sum.plans;
  sum.events += outcome->events;
  EXPECT_EQ(outcome->fault, Fault::none) << problem.id;
  const bool proven = figures.contains("optimum_us");
  EXPECT_EQ(outcome->makespan_us, figures.at(proven ? "optimum_us" : "makespan_us")) << problem.id;
  EXPECT_EQ(outcome->bytes_in, figures.at("bytes_in")) << problem.id;
  EXPECT_EQ(outcome->bytes_out, figures.at("bytes_out")) << problem.id;
  if (figures.contains("compute_end_us")) {
    EXPECT_EQ(outcome->compute_end_us, figures.at("compute_end_us")) << problem.id;
  }
  if (figures.contains("peak_fast_bytes")) {
    EXPECT_EQ(outcome->peak_bytes, figures.at("peak_fast_bytes")) << problem.id;
  }
}

TEST(ChainSimulate, ReproducesEveryRecordedPlan) {
  PARBUCKLE_NEEDS_SHARED("planner_cases/chains.jsonl");
  std::map<std::string, Problem> chains;
  for (Problem& problem : read_chains(shared_file("planner_cases/chains.jsonl"))) {
    chains.emplace(problem.id, problem);
  }
  Replayed sum;
  for (const nlohmann::json& row : json_lines(shared_file("planner_cases/chains_results.jsonl"))) {
    if (!row.contains("plan") || row["plan"].is_null()) {
      continue;
    }
    const Problem& problem = chains.at(row.at("chain"));
    if (row.contains("recomputed")) {
      expect_equal(with_recompute(problem, alternatives_of(problem, row["recomputed"])),
                   row,
                   row["plan"],
                   sum);
    } else {
      expect_equal(problem, row, row["plan"], sum);
    }
  }
  EXPECT_GE(sum.plans, 347);
  std::cout << sum.plans << " recorded plans, " << sum.events << " events, "
            << static_cast<double>(sum.events) / sum.seconds
            << " events/s (preparation included)\n";
}

TEST(ChainSimulate, ReproducesEverySmallPlan) {
  PARBUCKLE_NEEDS_SHARED("planner_cases/small_optima.jsonl");
  Replayed sum;
  for (const nlohmann::json& row : json_lines(shared_file("planner_cases/small_optima.jsonl"))) {
    const Problem problem = problem_from_json(row.at("instance").dump()).value();
    for (const nlohmann::json& result : row.at("results")) {
      expect_equal(problem, result, result.at("plan"), sum);
      const nlohmann::json& peer = result.at("peer");
      if (peer.is_object() && peer.value("feasible", false)) {
        expect_equal(problem, peer, peer.at("plan"), sum);
      }
    }
  }
  EXPECT_GE(sum.plans, 158);
  std::cout << sum.plans << " plans of small chains\n";
}

TEST(ChainSimulate, AMillionEventsASecond) {
  const Problem problem = tiny();
  const Plan plan = streaming();
  Simulator simulator(problem);
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t events = 0;
  while (events < 3'000'000) {
    events += simulator.run(plan).events;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::cout << static_cast<double>(events) / seconds << " events/s\n";
  EXPECT_GT(static_cast<double>(events) / seconds, 1e6);
}

TEST(ChainPlanner, RepeatsItsPlan) {
  const Problem problem = tiny();
  const Planned first = plan_chain(problem, Start::cold, {20'000}).value();
  const Planned second = plan_chain(problem, Start::cold, {20'000}).value();
  EXPECT_EQ(first.plan, second.plan);
  EXPECT_EQ(first.outcome.makespan_us,
            45);  // load a, f0, load b, f1, load a, f2: there is never room for both
  EXPECT_EQ(judge(problem, first.plan).value().makespan_us, first.outcome.makespan_us);
}

TEST(ChainPlanner, SaysWhatDoesNotFit) {
  Problem problem = tiny();
  problem.fast_capacity = 9;
  EXPECT_EQ(plan_chain(problem, Start::warm, {20'000}).status().message(),
            "chain tiny: no plan was found for 9 bytes of fast memory");
}

}  // namespace
}  // namespace parbuckle::chain
