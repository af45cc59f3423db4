#include "offload/run/step_table.h"

#include <functional>

#include <gtest/gtest.h>

#include "tests/offload/run/hand_step.h"

namespace parbuckle {
namespace {

Result<StepTable> table_of(const HandStep& step) {
  return make_step_table(step.plan, step.workload, step.programs);
}

TEST(StepTable, LooksUpWhatAHandWrittenStepTouches) {
  const HandStep step = hand_step();
  const Result<StepTable> table = table_of(step);
  ASSERT_TRUE(table.ok()) << table.status().message();
  const std::vector<Cell> cells{{AllocationId(0L), BlockId(0L), 0, 2 * page_bytes},
                                {AllocationId(1L), BlockId(1L), 0, 64}};
  EXPECT_EQ(table->cells, cells);
  EXPECT_EQ(table->operand_cells[0], (std::vector<CellRange>{{0, 1}, {1, 2}}));
  EXPECT_EQ(table->users, (std::vector<std::int32_t>{3, 1})) << "read, task, write; task";
  EXPECT_EQ(table->transfer_cell, (std::vector<std::size_t>{0, 0}));
  EXPECT_EQ(table->serves_pending, (std::vector<bool>{true, true}));
  EXPECT_EQ(table->order, (std::vector<StepEvent>{{false, 0}, {true, 0}, {false, 1}}));
}

TEST(StepTable, AnOperandTouchesTheBlocksItOverlapsOnly) {
  HandStep step = hand_step();
  Workload& w = step.workload;
  w.blocks[HandStep::weight].bytes = page_bytes;
  w.blocks.push_back(w.blocks[HandStep::weight]);
  w.blocks[2].name = "weight.1";
  w.blocks[2].span_offset = page_bytes;
  w.spans[HandStep::weight].blocks = {BlockId(0L), BlockId(2L)};
  step.programs[0].region_bytes[0] = page_bytes;
  step.plan.tasks[0].operands[0].offset = page_bytes;
  step.plan.transfers[0] = {.block = BlockId(2L),
                            .allocation = AllocationId(0L),
                            .offset = page_bytes,
                            .bytes = page_bytes};
  step.plan.transfers.pop_back();
  const Result<StepTable> table = table_of(step);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->operand_cells[0][0], (CellRange{1, 2}));
  EXPECT_EQ(table->transfer_cell[0], 1U);
}

TEST(StepTable, OnlyUpdatesBeforeTheFirstBackwardTaskArePending) {
  HandStep step = hand_step();
  Task backward = step.plan.tasks[0];
  backward.kind = TaskKind::backward;
  step.plan.tasks.insert(step.plan.tasks.begin(), backward);
  step.plan.transfers[1].after_task = 1;
  const Result<StepTable> table = table_of(step);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->serves_pending, (std::vector<bool>{false, false}));
}

struct Misfit {
  const char* name;
  std::function<void(HandStep&)> spoil;
  const char* message;
};

class Misfits : public testing::TestWithParam<Misfit> {};

TEST_P(Misfits, AreRefusedByName) {
  HandStep step = hand_step();
  GetParam().spoil(step);
  const Result<StepTable> table = table_of(step);
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.status().code(), Code::internal);
  EXPECT_NE(table.status().message().find(GetParam().message), std::string::npos)
      << table.status().message();
}

const std::vector<Misfit> misfits{
    {"allocation_outside",
     [](HandStep& s) { s.plan.allocations[0].offset = 3 * page_bytes; },
     "('weight'): 8192 bytes at 12288 are not inside the arena"},
    {"allocation_unaligned",
     [](HandStep& s) { s.plan.allocations[0].offset = 64; },
     "are not inside the arena"},
    {"no_family",
     [](HandStep& s) { s.plan.tasks[0].family = FamilyId(7L); },
     "plan task 0 (update, ?): names no family"},
    {"no_program",
     [](HandStep& s) { s.workload.families[0].programs = {ProgramId(3L)}; },
     "names a program that does not exist"},
    {"micro_batch",
     [](HandStep& s) { s.plan.tasks[0].micro_batch = 1; },
     "micro-batch 1 does not fit the family's 1 programs"},
    {"scratch_small",
     [](HandStep& s) { s.plan.tasks[0].scratch_bytes = 64; },
     "has 2 operands and 64 bytes of scratch, its program needs 2 and 128"},
    {"scratch_outside",
     [](HandStep& s) { s.plan.tasks[0].scratch_offset = 4 * page_bytes; },
     "its scratch is outside the arena"},
    {"operand_missing", [](HandStep& s) { s.plan.tasks[0].operands.pop_back(); }, "has 1 operands"},
    {"operand_outside",
     [](HandStep& s) { s.plan.tasks[0].operands[1].offset = 32; },
     "operand 1 needs 64 bytes, its allocation does not hold them"},
    {"wait_for_nothing",
     [](HandStep& s) { s.plan.tasks[0].waits = {TransferId(9L)}; },
     "waits for a transfer that does not exist"},
    {"transfer_of_nothing",
     [](HandStep& s) { s.plan.transfers[0].block = BlockId(9L); },
     "plan transfer 0 (nvme_read of '?'): names no block or no allocation"},
    {"transfer_elsewhere",
     [](HandStep& s) { s.plan.transfers[0].block = BlockId(1L); },
     "its block does not stand at byte 0 of allocation 'weight'"},
    {"transfer_short",
     [](HandStep& s) { s.plan.transfers[0].bytes = page_bytes; },
     "moves 4096 bytes, its block has 8192"},
    {"no_such_lane",
     [](HandStep& s) { s.plan.transfers[0].lane = LaneKind::h2d; },
     "this device has no such lane"},
    {"transfer_after_nothing",
     [](HandStep& s) { s.plan.transfers[0].after_task = 5; },
     "waits for something that does not exist"},
    {"never_ends",
     [](HandStep& s) { s.plan.transfers[0].after_transfers = {TransferId(1L)}; },
     "plan cannot finish: plan task 0 (update, change) waits for ever"},
    {"last_transfer_never_ends",
     [](HandStep& s) { s.plan.transfers[1].after_transfers = {TransferId(1L)}; },
     "plan cannot finish: a transfer after the last task waits for ever"},
};

INSTANTIATE_TEST_SUITE_P(StepTable, Misfits, testing::ValuesIn(misfits), [](const auto& of) {
  return std::string(of.param.name);
});

}  // namespace
}  // namespace parbuckle
