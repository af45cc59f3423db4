#include "offload/plan/simulate.h"

#include <chrono>

#include <gtest/gtest.h>

#include "tests/offload/plan/draft.h"
#include "tests/support/workload_generator.h"

namespace parbuckle {
namespace {

// One compute second per task of family 0, two of family 1; 100 B/s to read, 50 to write, 60 and 30 when both move.
Hardware slow_machine() {
  Hardware h;
  h.name = "slow";
  h.devices = {{"cpu", 1, "", 1e9, 1e9}};
  h.lanes = {{"read", LaneKind::nvme_read, 0.5, 100, 60, 0},
             {"write", LaneKind::nvme_write, 0.5, 50, 30, 0}};
  return h;
}

const std::vector<double> seconds{1, 2};

Task task(std::int64_t family, std::vector<TransferId> waits) {
  Task t;
  t.family = FamilyId(family);
  t.waits = std::move(waits);
  return t;
}

Transfer move(LaneKind lane, std::int64_t bytes, std::int32_t after_task) {
  Transfer t;
  t.lane = lane;
  t.bytes = bytes;
  t.after_task = after_task;
  return t;
}

TransferId id(std::int64_t i) {
  return TransferId(i);
}

TEST(Simulate, TasksFollowEachOtherAndWait) {
  Plan plan;
  plan.tasks = {task(0, {}), task(1, {id(0)}), task(0, {})};
  plan.transfers = {move(LaneKind::nvme_read, 300, -1)};
  const Timeline t = simulate(plan, seconds, slow_machine()).value();
  EXPECT_EQ(t.tasks, (std::vector<Interval>{{0, 1}, {3.5, 5.5}, {5.5, 6.5}}));
  EXPECT_EQ(t.transfers, (std::vector<Interval>{{0, 3.5}}));
  EXPECT_DOUBLE_EQ(t.step_s, 6.5);
}

TEST(Simulate, LanesAreQueues) {
  Plan plan;
  plan.tasks = {task(0, {}), task(0, {id(1)})};
  plan.transfers = {move(LaneKind::nvme_read, 100, 0), move(LaneKind::nvme_read, 100, -1)};
  const Timeline t = simulate(plan, seconds, slow_machine()).value();
  // The second starts with the first, waits its latency meanwhile, and moves when the first has moved.
  EXPECT_EQ(t.transfers, (std::vector<Interval>{{1, 2.5}, {1, 3.5}}));
  EXPECT_DOUBLE_EQ(t.step_s, 4.5);
}

TEST(Simulate, ALaneHasItsDepth) {
  Plan plan;
  constexpr std::int32_t depth = lane_depth(LaneKind::nvme_read);
  plan.transfers.assign(static_cast<std::size_t>(depth) + 1, move(LaneKind::nvme_read, 10, -1));
  const Timeline t = simulate(plan, seconds, slow_machine()).value();
  EXPECT_EQ(t.transfers[0], (Interval{0, 0.6}));
  const Interval last_at_once = t.transfers[static_cast<std::size_t>(depth) - 1];
  EXPECT_DOUBLE_EQ(last_at_once.begin_s, 0);
  EXPECT_DOUBLE_EQ(last_at_once.end_s, 0.5 + 0.1 * depth);
  EXPECT_DOUBLE_EQ(t.transfers.back().begin_s, 0.6) << "starts when the first has ended";
}

TEST(Simulate, OppositeDirectionsShareTheirEngineWhileBothMove) {
  Plan plan;
  plan.tasks = {task(0, {})};
  // Reads 250 bytes: 0.5 s latency for both; then 60 and 30 B/s until 90 bytes are written (3 s, 180 read); 70 left at 100.
  plan.transfers = {move(LaneKind::nvme_read, 250, -1), move(LaneKind::nvme_write, 90, -1)};
  const Timeline t = simulate(plan, seconds, slow_machine()).value();
  EXPECT_DOUBLE_EQ(t.transfers[1].end_s, 3.5);
  EXPECT_DOUBLE_EQ(t.transfers[0].end_s, 4.2);
}

TEST(Simulate, IndependentEnginesDoNotDisturbEachOther) {
  Plan plan;
  plan.transfers = {move(LaneKind::nvme_read, 250, -1), move(LaneKind::nvme_write, 100, -1)};
  Hardware h = slow_machine();
  h.lanes[1].engine = 1;
  const Timeline t = simulate(plan, seconds, h).value();
  EXPECT_DOUBLE_EQ(t.transfers[0].end_s, 3);
  EXPECT_DOUBLE_EQ(t.transfers[1].end_s, 2.5);
}

TEST(Simulate, TransfersWaitForTransfersAndAreOverBeforeTheStepEnds) {
  Plan plan;
  plan.tasks = {task(0, {})};
  plan.transfers = {move(LaneKind::nvme_write, 50, 0), move(LaneKind::nvme_read, 100, -1)};
  plan.transfers[1].after_transfers = {id(0)};
  const Timeline t = simulate(plan, seconds, slow_machine()).value();
  EXPECT_EQ(t.transfers, (std::vector<Interval>{{1, 2.5}, {2.5, 4}}));
  EXPECT_DOUBLE_EQ(t.step_s, 4);
}

TEST(Simulate, SaysWhenNothingCanRun) {
  Plan plan;
  plan.tasks = {task(0, {id(0)})};
  plan.transfers = {move(LaneKind::nvme_read, 100, 0)};
  EXPECT_EQ(simulate(plan, seconds, slow_machine()).status().code(), Code::internal);
  plan.transfers[0].lane = LaneKind::h2d;
  EXPECT_EQ(simulate(plan, seconds, slow_machine()).status().code(), Code::invalid_argument);
}

TEST(Simulate, PrefersMeasuredTimes) {
  TransformerSizes sizes;
  const Workload workload = make_workload(sizes);
  Hardware h = small_machine();
  const std::string name = workload.families[3].name;
  h.program_times = {{name, {64, 0}, 7.0}, {name, {128, 0}, 9.0}};
  EXPECT_EQ(family_seconds(workload, h).value()[3], 7.0);
  h.program_times.clear();
  const Family& family = workload.families[3];
  EXPECT_DOUBLE_EQ(family_seconds(workload, h).value()[3],
                   family.flops[0] / 200e9 + family.traffic_bytes[0] / 12e9);
  h.devices[0].flops_per_s = 0;
  EXPECT_FALSE(family_seconds(workload, h).ok());
}

TEST(Simulate, AMillionEventsASecond) {
  const Workload workload = make_workload(smollm2_135m(4, 256));
  const Plan plan = draft(workload, streamed(workload, Window::lazy));
  const Hardware h = small_machine();
  const FamilySeconds times = family_seconds(workload, h).value();
  const auto begin = std::chrono::steady_clock::now();
  std::size_t events = 0;
  while (events < 1'000'000) {
    const Timeline t = simulate(plan, times, h).value();
    events += 2 * (t.tasks.size() + t.transfers.size());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double rate = static_cast<double>(events) / took.count();
  RecordProperty("events_per_second", std::to_string(rate));
  EXPECT_GT(rate, 2e5);  // 1e6 where nothing else runs
}

}  // namespace
}  // namespace parbuckle
