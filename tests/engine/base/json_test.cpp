#include "engine/base/json.h"

#include <gtest/gtest.h>

namespace parbuckle {
namespace {

Plan sample_plan() {
  Plan plan;
  plan.workload = "tiny \"quoted\"";
  plan.phase = Phase::eval;
  plan.choice = {.group = 4,
                 .window = Window::lazy,
                 .alternative = {0, 1},
                 .activation = {WaitsIn::nvme, WaitsIn::compute, WaitsIn::host},
                 .boundary = WaitsIn::nvme,
                 .gradient = WaitsIn::nvme,
                 .resident = {SpanId(std::int64_t{3})},
                 .hosted = {SpanId(std::int64_t{4})},
                 .prefetch = 2,
                 .by_stage = true};
  plan.budgets.host_bytes = 1LL << 40;
  plan.allocations = {{.what = "a.weight",
                       .role = Role::moment2,
                       .span = SpanId(std::int64_t{1}),
                       .block = 2,
                       .micro_batch = 3,
                       .tier = Tier::nvme,
                       .offset = 4096,
                       .bytes = 8192,
                       .resident = true}};
  plan.tasks = {{.kind = TaskKind::backward,
                 .family = FamilyId(std::int64_t{1}),
                 .unit = UnitId(std::int64_t{2}),
                 .micro_batch = 1,
                 .operands = {{AllocationId(std::int64_t{0}), 64, Access::update}},
                 .scratch_offset = 128,
                 .scratch_bytes = 256,
                 .waits = {TransferId(std::int64_t{0})}}};
  plan.transfers = {{.lane = LaneKind::nvme_write,
                     .block = BlockId(std::int64_t{5}),
                     .micro_batch = 0,
                     .allocation = AllocationId(std::int64_t{0}),
                     .offset = 0,
                     .host = AllocationId(std::int64_t{6}),
                     .host_offset = 12288,
                     .bytes = 4096,
                     .after_task = 7,
                     .after_transfers = {TransferId(std::int64_t{9})}}};
  plan.homes = {
      {.block = BlockId(std::int64_t{5}), .tier = Tier::nvme, .allocation = {}, .offset = 1}};
  plan.bytes = {{.role = Role::gradient,
                 .read = 1,
                 .written = 2,
                 .down = 5,
                 .up = 6,
                 .resident = 3,
                 .hosted = 7,
                 .stored = 4}};
  plan.predicted = {.tasks = {{0.25, 0.5}}, .transfers = {{1e-9, 3.0}}, .step_s = 0.1};
  plan.bound = {.compute_s = 1,
                .read_s = 2,
                .write_s = 3,
                .duplex_s = 4,
                .down_s = 6,
                .up_s = 7,
                .step_s = 5,
                .limited_by = "nvme_read"};
  plan.reasons = {"because"};
  return plan;
}

TEST(Json, PlanSurvivesTheRoundTrip) {
  const Plan plan = sample_plan();
  const auto back = plan_from_json(to_json(plan));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, plan);
}

TEST(Json, WorkloadAndProgramSurviveTheRoundTrip) {
  Workload workload;
  workload.name = "w";
  workload.shapes = {{64, 0}, {128, 512}};
  workload.blocks = {{.name = "b",
                      .role = Role::kv_cache,
                      .dtype = DType::bf16,
                      .bytes = 3,
                      .row_bytes = 4,
                      .per_micro_batch = true,
                      .persistent = true,
                      .starts_zero = true,
                      .pinned = true,
                      .span = SpanId(std::int64_t{0}),
                      .span_offset = 9}};
  workload.spans = {
      {.name = "s", .blocks = {BlockId(std::int64_t{0})}, .bytes = 3, .per_micro_batch = true}};
  const TaskTemplate task{FamilyId(std::int64_t{0}), {{SpanId(std::int64_t{0}), 0, Access::write}}};
  workload.families = {{.name = "f",
                        .programs = {ProgramId(std::int64_t{1})},
                        .flops = {1.5},
                        .traffic_bytes = {2},
                        .scratch_bytes = 64}};
  workload.units = {{.name = "u",
                     .alternatives = {{"keep", {task}, {task}}},
                     .gradient_begin = {task},
                     .gradient_end = {task}}};
  workload.updates = {{SpanId(std::int64_t{0}), 0, task}};
  workload.clipping = true;
  const auto back = workload_from_json(to_json(workload));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, workload);

  Program program{.name = "p",
                  .key = {64, 0},
                  .region_bytes = {1, 2},
                  .ops = {{.kind = OpKind::adamw,
                           .attributes = {.eps = 0.1F, .decay = true},
                           .operands = {{0, 64, DType::i32, {2, 3, 1}}},
                           .workspace_offset = 8}},
                  .scratch_bytes = 3,
                  .flops = 4,
                  .traffic_bytes = 5};
  const auto program_back = program_from_json(to_json(program));
  ASSERT_TRUE(program_back.ok()) << program_back.status().message();
  EXPECT_EQ(*program_back, program);
}

TEST(Json, HardwareBudgetsAndTraceSurviveTheRoundTrip) {
  Hardware hardware{.name = "h",
                    .fingerprint = "x",
                    .devices = {{.name = "cpu",
                                 .cores = 2,
                                 .instruction_set = "avx2",
                                 .flops_per_s = 1e11,
                                 .memory_bytes_per_s = 2e10}},
                    .tiers = {{Tier::host, "host", 1, 2, "MemAvailable"}},
                    .lanes = {{"r", LaneKind::nvme_read, 1e-4, 1e9, 5e8, 0}},
                    .program_times = {{"p", {64, 0}, 0.25}}};
  const auto back = hardware_from_json(to_json(hardware));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, hardware);
  const Budgets budgets{.host_bytes = 5, .nvme_bytes = 6};
  EXPECT_EQ(budgets_from_json(to_json(budgets)).value(), budgets);
  const StepTrace trace{.timeline = {.step_s = 2},
                        .bytes = {{.role = Role::weight, .read = 9}},
                        .arena_peak_bytes = 3,
                        .device_arena_peak_bytes = 4};
  EXPECT_EQ(step_trace_from_json(to_json(trace)).value(), trace);
}

TEST(Json, FaultsNameThePath) {
  std::string text = to_json(sample_plan());
  const auto at = text.find("\"backward\"");
  text.replace(at, 10, "\"sideways\"");
  const auto wrong = plan_from_json(text);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find("plan.tasks[0].kind"), std::string::npos)
      << wrong.status().message();
  EXPECT_NE(wrong.status().message().find("backward"), std::string::npos);
  EXPECT_FALSE(plan_from_json("{").ok());
  EXPECT_FALSE(budgets_from_json("{\"surprise\": 1}").ok());
}

}  // namespace
}  // namespace parbuckle
