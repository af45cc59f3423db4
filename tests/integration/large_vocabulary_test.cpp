// A table too long for one pass over the output layer: cut into parts, it needs the memory of a part, not of the table, and
// placement changes no bit of the result.
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/trainer.h"

#include "tests/support/random_model.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/smallest_budget.h"

namespace parbuckle {
namespace {

constexpr std::int64_t vocabulary = 262144;  // four parts of 4 Mi elements

class LargeVocabulary : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    write_random_model(scratch_.path() / "model", {.vocabulary = vocabulary, .tied = GetParam()});
    std::filesystem::create_directories(scratch_.path() / "nvme");
    std::ofstream data(scratch_.path() / "rows.jsonl");
    for (std::int64_t row = 0; row < 8; ++row) {
      data << "{\"input_ids\": [5";
      for (std::int64_t i = 0; i < 50; ++i) {
        data << ", " << (row * 31 + i * 79193) % vocabulary;
      }
      data << "]}\n";
    }
  }

  [[nodiscard]] TrainConfig config(double max_norm) const {
    TrainConfig c;
    c.model = (scratch_.path() / "model").string();
    c.data = (scratch_.path() / "rows.jsonl").string();
    c.eval_data = c.data;
    c.output_dir = (scratch_.path() / "out").string();
    c.overwrite_output_dir = true;
    c.gradient_accumulation_steps = 2;
    c.max_steps = 2;
    c.learning_rate = 1e-3;
    c.max_grad_norm = max_norm;
    c.dataset.max_length = 64;
    c.memory.nvme_path = (scratch_.path() / "nvme").string();
    c.memory.threads = 2;
    return c;
  }

  ScratchFolder scratch_{"large_vocabulary"};
};

TEST_P(LargeVocabulary, PartByPartEndsInTheSameBits) {
  std::set<std::string> hashes;
  const double max_norm = GetParam() ? 0.5 : 0.0;
  const std::string window = GetParam() ? "after" : "fused";
  for (const bool tight : {false, true}) {
    for (const std::string& forced : {std::string(), window}) {
      TrainConfig c = config(max_norm);
      c.optimizer_window = forced;
      if (tight) {
        c.order = "layer-major";
        c.memory.host_memory = mib_text(smallest_budget(c));
      }
      Observer silent;
      const auto planned = plan(c, false, silent);
      ASSERT_TRUE(planned.ok()) << planned.status().message();
      EXPECT_EQ(planned->find("output      part by part") != std::string::npos, tight) << *planned;
      const auto report = train(c, silent);
      ASSERT_TRUE(report.ok()) << report.status().message();
      hashes.insert(report->state_hash);
      EXPECT_EQ(report->nvme_read_bytes, report->planned_nvme_read_bytes);
      EXPECT_EQ(report->nvme_written_bytes, report->planned_nvme_written_bytes);
    }
  }
  EXPECT_EQ(hashes.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(TiedAndNot, LargeVocabulary, testing::Bool());

}  // namespace
}  // namespace parbuckle
