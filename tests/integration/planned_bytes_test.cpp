// Every byte that a step moves is the plan's, role by role, in every window and order and from the first step on.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/trainer.h"

#include "tests/integration/recorded_steps.h"
#include "tests/support/shared_path.h"
#include "tests/support/small_training.h"
#include "tests/support/smallest_budget.h"

namespace parbuckle {
namespace {

class PlannedBytes : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { PARBUCKLE_NEEDS_SHARED(std::string("fixtures/models/") + GetParam()); }
};

TEST_P(PlannedBytes, EveryRoleMovesWhatThePlanSays) {
  const SmallTraining training(GetParam());
  const std::vector<std::pair<ForcedPlacement, double>> cases{
      {{"layer-major", "spill", "lazy"}, 0.5},
      {{"layer-major", "recompute", "after"}, 0.5},
      {{"layer-major", "spill", "fused"}, 0},
      {{"2", "spill", "lazy"}, 0},
      {{"micro-batch-major", "spill", "after"}, 0},
      {{"micro-batch-major", "recompute", "fused"}, 0}};
  int moving = 0;
  for (const auto& [forced, max_norm] : cases) {
    const std::string name = forced.order + " " + forced.activations + " " + forced.window;
    TrainConfig config = training.config(forced, max_norm);
    config.memory.host_memory = mib_text(smallest_budget(config));
    RecordedSteps steps;
    const auto report = train(config, steps);
    ASSERT_TRUE(report.ok()) << name << ": " << report.status().message();
    std::int64_t moved = 0;
    for (const StepRecord& record : steps.records()) {
      expect_bytes_as_planned(record, name);
      moved += record.nvme_read_bytes + record.nvme_written_bytes;
    }
    moving += moved > 0 ? 1 : 0;
    EXPECT_EQ(report->nvme_read_bytes, report->planned_nvme_read_bytes) << name;
    EXPECT_EQ(report->nvme_written_bytes, report->planned_nvme_written_bytes) << name;
    EXPECT_EQ(report->measured_arena_peak_bytes, report->planned_arena_bytes) << name;
  }
  // Budgets are whole MiB and the models small: some smallest budgets hold everything.
  EXPECT_GE(moving, 3);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         PlannedBytes,
                         testing::Values("llama_gqa_untied", "gpt2_tied", "qwen3"));

}  // namespace
}  // namespace parbuckle
