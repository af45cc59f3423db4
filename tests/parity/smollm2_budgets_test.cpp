// The same bits of a loss and the same ids of a continuation in every budget, the smallest one included: weights stream from the
// drive there, for every pass of eval and every token of generate.
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "parbuckle/trainer.h"

#include "tests/parity/smollm2_model.h"
#include "tests/support/scratch_folder.h"

namespace parbuckle {
namespace {

/// The budget that the refusal of an impossible one names.
std::string smallest_named(const Status& refusal) {
  const std::string& message = refusal.message();
  const auto end = message.rfind("MiB");
  const auto begin = message.find_last_of(' ', end) + 1;
  return end == std::string::npos ? "" : message.substr(begin, end + 3 - begin);
}

class SmolLM2Budgets : public testing::Test {
 protected:
  void SetUp() override { PARBUCKLE_NEEDS_SMOLLM2(); }

  MemoryConfig memory(const std::string& budget) const {
    return {.host_memory = budget, .nvme_path = scratch_.path().string(), .threads = 2};
  }

  ScratchFolder scratch_{"smollm2_budgets"};
  Observer silent_;
};

TEST_F(SmolLM2Budgets, EvalGivesTheSameBits) {
  EvalConfig config;
  config.model = smollm2_path();
  config.data = (scratch_.path() / "rows.jsonl").string();
  std::ofstream(config.data) << R"({"text": "The barrel rolls up the slope with half the force."})"
                             << "\n"
                             << R"({"text": "A rope looped twice holds it."})"
                             << "\n";
  config.memory = memory("1MiB");
  const std::string smallest = smallest_named(evaluate(config, silent_).status());
  std::set<double> losses;
  for (const std::string& budget : {smallest, std::string("300MiB"), std::string("1500MiB")}) {
    config.memory = memory(budget);
    const auto record = evaluate(config, silent_);
    ASSERT_TRUE(record.ok()) << budget << ": " << record.status().message();
    losses.insert(record->eval_loss);
    EXPECT_EQ(losses.size(), 1U) << budget;
  }
}

TEST_F(SmolLM2Budgets, GenerateGivesTheSameIds) {
  GenerateConfig config;
  config.model = smollm2_path();
  config.prompt = "The capital of France is";
  config.max_new_tokens = 5;
  config.ignore_eos = true;
  config.temperature = 1;  // a draw feels the last bits of the logits, the likeliest token does not
  config.memory = memory("1MiB");
  const auto ignore = [](std::string_view) {};
  const std::string smallest = smallest_named(generate(config, ignore, silent_).status());
  std::set<std::vector<std::int32_t>> found;
  for (const std::string& budget : {smallest, std::string("300MiB"), std::string("1500MiB")}) {
    config.memory = memory(budget);
    const auto generation = generate(config, ignore, silent_);
    ASSERT_TRUE(generation.ok()) << budget << ": " << generation.status().message();
    EXPECT_EQ(generation->new_ids.size(), 5U);
    found.insert(generation->new_ids);
    EXPECT_EQ(found.size(), 1U) << budget;
  }
}

}  // namespace
}  // namespace parbuckle
