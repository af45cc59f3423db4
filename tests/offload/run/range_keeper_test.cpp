#include "offload/run/range_keeper.h"

#include <algorithm>
#include <span>

#include <gtest/gtest.h>

#include "tests/offload/run/hand_step.h"
#include "tests/support/page_buffer.h"

namespace parbuckle {
namespace {

class Keeper : public testing::Test {
 protected:
  void make(bool poison) {
    table = make_step_table(step.plan, step.workload, step.programs).value();
    keeper = RangeKeeper::create(step.plan,
                                 step.workload,
                                 table,
                                 poison ? ArenaAddresses{.host = arena.data()} : ArenaAddresses{})
                 .value();
    arena.fill(1);
    keeper->begin_step();
  }
  [[nodiscard]] bool holds(std::int64_t offset, std::int64_t bytes, int value) const {
    const auto range =
        arena.span().subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
    return std::ranges::all_of(range,
                               [value](std::byte b) { return b == static_cast<std::byte>(value); });
  }

  HandStep step = hand_step();
  PageBuffer arena{4 * page_bytes};
  StepTable table;
  std::unique_ptr<RangeKeeper> keeper;
};

TEST_F(Keeper, HoldsARangeFromItsFirstToItsLastUser) {
  make(false);
  const Ledger& ledger = keeper->ledger();
  EXPECT_EQ(ledger.held(Tier::host, Role::statistic), 64) << "resident: always";
  EXPECT_EQ(ledger.held(Tier::host, Role::weight), 0);
  ASSERT_TRUE(keeper->transfer_begins(0).ok());
  EXPECT_EQ(ledger.held(Tier::host, Role::weight), 2 * page_bytes);
  ASSERT_TRUE(keeper->transfer_ends(0).ok());
  ASSERT_TRUE(keeper->task_begins(0).ok());
  ASSERT_TRUE(keeper->task_ends(0).ok());
  EXPECT_EQ(keeper->end_step().message(), "allocation 'weight' is still held after the step");
  ASSERT_TRUE(keeper->transfer_begins(1).ok());
  ASSERT_TRUE(keeper->transfer_ends(1).ok());
  EXPECT_EQ(ledger.held(Tier::host, Role::weight), 0);
  EXPECT_EQ(ledger.held(Tier::host), 64);
  EXPECT_TRUE(keeper->end_step().ok());
  EXPECT_EQ(keeper->peak_bytes(Tier::host), 4 * page_bytes) << "end of the scratch";
}

TEST_F(Keeper, RefusesATaskBeforeItsBytesHaveArrived) {
  make(false);
  EXPECT_NE(keeper->task_begins(0).message().find("block 'weight'"), std::string::npos);
  make(false);
  ASSERT_TRUE(keeper->transfer_begins(0).ok());
  const Status status = keeper->task_begins(0);
  EXPECT_EQ(status.code(), Code::internal);
  EXPECT_NE(status.message().find("block 'weight' is filling"), std::string::npos)
      << status.message();
}

TEST_F(Keeper, RefusesToChangeWhatIsOnItsWayOut) {
  make(false);
  ASSERT_TRUE(keeper->transfer_begins(0).ok());
  ASSERT_TRUE(keeper->transfer_ends(0).ok());
  ASSERT_TRUE(keeper->transfer_begins(1).ok());
  const Status status = keeper->task_begins(0);
  EXPECT_NE(status.message().find("block 'weight' is draining"), std::string::npos)
      << status.message();
}

TEST_F(Keeper, RefusesToDrainWhatNobodyFilled) {
  make(false);
  const Status status = keeper->transfer_begins(1);
  EXPECT_EQ(status.code(), Code::internal);
  EXPECT_NE(status.message().find("drain_begin"), std::string::npos) << status.message();
}

TEST_F(Keeper, WhatIsLeftOutGivesItsRangesBackAllTheSame) {
  make(false);
  ASSERT_TRUE(keeper->transfer_skipped(0).ok());
  ASSERT_TRUE(keeper->task_skipped(0).ok());
  ASSERT_TRUE(keeper->transfer_skipped(1).ok());
  EXPECT_TRUE(keeper->end_step().ok());
  EXPECT_EQ(keeper->peak_bytes(Tier::host), page_bytes) << "resident ranges alone";
  keeper->begin_step();
  EXPECT_TRUE(keeper->transfer_begins(0).ok()) << "the next step starts afresh";
}

TEST_F(Keeper, PoisonsFreeRangesAndScratchAndNothingElse) {
  make(true);
  EXPECT_TRUE(holds(page_bytes, 2 * page_bytes, 0xFF)) << "not yet arrived";
  EXPECT_TRUE(holds(0, page_bytes, 1)) << "resident";
  ASSERT_TRUE(keeper->transfer_begins(0).ok());
  std::ranges::fill(arena.span().subspan(page_bytes, 2 * page_bytes), std::byte{2});
  ASSERT_TRUE(keeper->transfer_ends(0).ok());
  ASSERT_TRUE(keeper->task_begins(0).ok());
  EXPECT_TRUE(holds(page_bytes, 2 * page_bytes, 2));
  EXPECT_TRUE(holds(3 * page_bytes, 128, 0xFF)) << "scratch";
  EXPECT_TRUE(holds(3 * page_bytes + 128, page_bytes - 128, 1)) << "behind the scratch";
  ASSERT_TRUE(keeper->task_ends(0).ok());
  ASSERT_TRUE(keeper->transfer_begins(1).ok());
  EXPECT_TRUE(holds(page_bytes, 2 * page_bytes, 2)) << "still on its way out";
  ASSERT_TRUE(keeper->transfer_ends(1).ok());
  EXPECT_TRUE(holds(page_bytes, 2 * page_bytes, 0xFF)) << "given back";
  EXPECT_TRUE(holds(0, page_bytes, 1));
}

TEST_F(Keeper, SparesWhatCrossesIntoTheStepWhereOthersUseItsBytesLater) {
  Allocation later = step.plan.allocations[HandStep::weight];
  step.plan.allocations[HandStep::weight].resident = true;
  step.plan.allocations[HandStep::weight].offset = 2 * page_bytes;
  later.offset = page_bytes;
  step.plan.allocations.push_back(later);
  make(true);
  EXPECT_TRUE(holds(page_bytes, page_bytes, 0xFF));
  EXPECT_TRUE(holds(2 * page_bytes, 2 * page_bytes, 1)) << "not free before its last user";
}

}  // namespace
}  // namespace parbuckle
