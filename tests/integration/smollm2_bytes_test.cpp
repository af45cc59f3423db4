// The byte arithmetic of the design on SmolLM2-135M: what each window moves of weights, moments and gradients per byte that lives
// on the drive, what the plan says to the byte, and what the kernel says.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "parbuckle/trainer.h"

#include "engine/base/json.h"
#include "offload/storage/drive.h"
#include "tests/integration/recorded_steps.h"
#include "tests/parity/smollm2_model.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/shared_path.h"
#include "tests/support/smallest_budget.h"

namespace parbuckle {
namespace {

/// Times that a byte of this role that lives on the drive is read and written in one layer-major step, and so 4 times as many
/// bytes per parameter: the table of the design.
struct Passes {
  double weight_read = 0;
  double gradient = 0;  // read and written, of gradients that leave memory
};

struct Case {
  std::string window;
  double max_norm = 0;
  std::int64_t above_smallest_mib = 0;  // gradients are pinned first
  Passes passes;
};

class SmolLM2Bytes : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    PARBUCKLE_NEEDS_SMOLLM2();
    PARBUCKLE_NEEDS_SHARED("data/gsm8k_train.jsonl");
    if (const Status drive = check_drive(scratch_.path(), 4LL << 30); !drive.ok()) {
      GTEST_SKIP() << "needs a drive under the build folder: " << drive.message();
    }
  }

  TrainConfig config() const {
    const Case& c = GetParam();
    TrainConfig config;
    config.model = smollm2_path();
    config.data = shared_file("data/gsm8k_train.jsonl").string();
    config.output_dir = (scratch_.path() / "out").string();
    config.overwrite_output_dir = true;
    config.gradient_accumulation_steps = 4;
    config.max_steps = 2;
    config.max_grad_norm = c.max_norm;
    config.shuffle = false;
    config.dataset.max_length = 256;
    config.dataset.packing = true;
    config.dataset.prompt_field = "question";
    config.dataset.completion_field = "answer";
    config.order = "layer-major";
    config.optimizer_window = c.window;
    config.memory.nvme_path = scratch_.path().string();
    config.memory.host_memory = mib_text(smallest_budget(config) + c.above_smallest_mib);
    return config;
  }

  ScratchFolder scratch_{"smollm2_bytes"};
};

std::map<std::string, RoleTraffic> by_role(const StepRecord& record) {
  std::map<std::string, RoleTraffic> roles;
  for (const RoleTraffic& traffic : record.traffic) {
    roles[traffic.role] = traffic;
  }
  return roles;
}

void expect_near(std::int64_t found, double expected, double share, const std::string& what) {
  std::cout << "  " << what << ": " << found << " bytes, expected " << std::llround(expected)
            << "\n";
  EXPECT_NEAR(static_cast<double>(found), expected, share * expected) << what;
}

TEST_P(SmolLM2Bytes, AreTheTableThePlanAndTheKernels) {
  const TrainConfig run = config();
  Observer silent;
  const auto text = plan(run, /*json=*/true, silent);
  ASSERT_TRUE(text.ok()) << text.status().message();
  const auto made = plan_from_json(*text);
  ASSERT_TRUE(made.ok()) << made.status().message();
  std::map<Role, double> stored;
  for (const RoleBytes& bytes : made->bytes) {
    stored[bytes.role] = static_cast<double>(bytes.stored);
  }
  RecordedSteps steps;
  const auto report = train(run, steps);
  ASSERT_TRUE(report.ok()) << report.status().message();
  for (const StepRecord& record : steps.records()) {
    expect_bytes_as_planned(record, GetParam().window);
  }
  EXPECT_EQ(report->measured_arena_peak_bytes, report->planned_arena_bytes);

  const StepRecord& steady = steps.records().back();
  auto roles = by_role(steady);
  const Passes& passes = GetParam().passes;
  std::cout << GetParam().window << ", --host-memory " << run.memory.host_memory << "\n";
  expect_near(
      roles["weight"].read, passes.weight_read * stored[Role::weight], 0.01, "weights read");
  expect_near(roles["weight"].written, stored[Role::weight], 0.01, "weights written");
  for (const Role role : {Role::moment1, Role::moment2}) {
    const std::string name(to_string(role));
    expect_near(roles[name].read, stored[role], 0.01, name + " read");
    expect_near(roles[name].written, stored[role], 0.01, name + " written");
  }
  expect_near(
      roles["gradient"].read, passes.gradient * stored[Role::gradient], 0.01, "gradients read");
  expect_near(roles["gradient"].written,
              passes.gradient * stored[Role::gradient],
              0.01,
              "gradients written");

  const ProcessIo kernel = steps.kernel_io(steps.records().size() - 1);
  expect_near(
      kernel.read_bytes, static_cast<double>(steady.nvme_read_bytes), 0.02, "kernel's reads");
  expect_near(kernel.written_bytes,
              static_cast<double>(steady.nvme_written_bytes),
              0.02,
              "kernel's writes");
}

// The last unit's saved re-read: the tied table of the head is read once for its forward and backward, and once by the embedding.
INSTANTIATE_TEST_SUITE_P(Windows,
                         SmolLM2Bytes,
                         testing::Values(Case{"fused", 0, 0, {2, 1}},
                                         Case{"lazy", 1, 0, {2, 1}},
                                         Case{"lazy", 1, 600, {2, 1}},
                                         Case{"after", 1, 600, {3, 1}}),
                         [](const auto& test) {
                           return test.param.window + "_plus_" +
                                  std::to_string(test.param.above_smallest_mib);
                         });

}  // namespace
}  // namespace parbuckle
