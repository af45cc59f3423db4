// SmolLM2-135M-Instruct as its GGUF file, against PyTorch: loss and best logits of four texts, greedy continuations of two.
#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "parbuckle/trainer.h"

#include "engine/train/set_up.h"
#include "tests/parity/opened_generator.h"
#include "tests/parity/smollm2_model.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

using Ids = std::vector<std::int32_t>;

class SmolLM2Parity : public testing::Test {
 protected:
  void SetUp() override {
    PARBUCKLE_NEEDS_SHARED("fixtures/real/smollm2_135m.json");
    PARBUCKLE_NEEDS_SMOLLM2();
    model_ = smollm2_path();
    std::ifstream file(shared_file("fixtures/real/smollm2_135m.json"));
    expected_ = nlohmann::json::parse(file);
  }

  std::string model_;
  nlohmann::json expected_;
};

TEST_F(SmolLM2Parity, EvalGivesTheMeanLossOfEverySequence) {
  const ScratchFolder scratch("smollm2_parity");
  for (const auto& sequence : expected_["sequences"]) {
    EvalConfig config;
    config.model = model_;
    config.data = (scratch.path() / "row.jsonl").string();
    std::ofstream(config.data) << nlohmann::json{{"input_ids", sequence["ids"]}} << "\n";
    Observer silent;
    const auto record = evaluate(config, silent);
    ASSERT_TRUE(record.ok()) << record.status().message();
    EXPECT_EQ(record->targets, 63);
    EXPECT_NEAR(record->eval_loss, sequence["mean_nll"], 1e-3) << "row " << sequence["row"];
  }
}

TEST_F(SmolLM2Parity, BestFiveAreTheReferenceIdsAndLogits) {
  constexpr double limit = 2e-2;
  const auto generator = OpenedGenerator::open(model_, {.prompt_tokens = 64, .cache_rows = 64});
  ASSERT_TRUE(generator.ok()) << generator.status().message();
  for (const auto& sequence : expected_["sequences"]) {
    const Ids ids = sequence["ids"];
    for (const auto& top : sequence["top5"]) {
      const auto seen = top["position"].get<std::size_t>() + 1;
      const auto found = (*generator)->logits(std::span(ids).first(seen));
      ASSERT_TRUE(found.ok()) << found.status().message();
      const Ids best = top["ids"];
      Ids order(found->size());
      std::iota(order.begin(), order.end(), 0);
      const auto logit = [&](std::int32_t id) { return (*found)[static_cast<std::size_t>(id)]; };
      std::partial_sort(order.begin(),
                        order.begin() + std::ssize(best),
                        order.end(),
                        [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b); });
      order.resize(best.size());
      EXPECT_EQ(order, best) << "row " << sequence["row"] << " position " << seen - 1;
      for (std::size_t i = 0; i < best.size(); ++i) {
        EXPECT_NEAR(logit(best[i]), top["logits"][i], limit) << "id " << best[i];
      }
    }
  }
}

TEST_F(SmolLM2Parity, GenerateContinuesAsTheReference) {
  Observer silent;
  const auto opened = open_model(model_, silent);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  for (const auto& sample : expected_["greedy"]) {
    const Ids prompt = sample["prompt"];
    const Ids new_ids = sample["new_ids"];
    GenerateConfig config;
    config.model = model_;
    config.prompt = opened->tokenizer->decode(prompt, /*skip_special=*/false);
    config.max_new_tokens = std::ssize(new_ids);
    config.ignore_eos = true;
    std::string shown;
    const auto found = generate(
        config, [&shown](std::string_view text) { shown += text; }, silent);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->prompt_ids, prompt);
    EXPECT_EQ(found->new_ids, new_ids) << "row " << sample["row"];
    EXPECT_EQ(found->text, opened->tokenizer->decode(new_ids, /*skip_special=*/true));
    EXPECT_EQ(shown, found->text);
  }
}

}  // namespace
}  // namespace parbuckle
