// A packed row against the reference values: positions restart in each document, no attention across documents, the first token
// of a document is never a target.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/engine/graph/fixture_run.h"
#include "tests/support/fixture_model.h"
#include "tests/support/shared_path.h"
#include "tests/support/table_under_test.h"

namespace parbuckle {
namespace {

class Packed : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    PARBUCKLE_NEEDS_SHARED("fixtures/models/" + GetParam());
    model_ = fixture_model(GetParam());
    row_ = model_.packed_row();
  }

  FixtureModel model_;
  TokenRows row_;
};

TEST_P(Packed, RowIsThatOfTheFixture) {
  const std::vector<double>& positions = model_.packed.at("position_ids");
  const std::vector<double>& documents = model_.packed.at("document_ids");
  ASSERT_EQ(row_.ids.size(), positions.size());
  EXPECT_TRUE(std::equal(positions.begin(), positions.end(), row_.positions.begin()));
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto first = std::find(documents.begin(), documents.end(), documents[i]);
    EXPECT_EQ(row_.segment_begin[i], first - documents.begin());
  }
}

TEST_P(Packed, LogitsAreTheReferenceValues) {
  expect_logits(forward_logits(model_, row_), model_.packed.at("logits"));
}

TEST_P(Packed, EveryDocumentHasItsLoss) {
  const auto& sums = model_.packed_numbers["loss_sums"];
  const auto documents = static_cast<std::int32_t>(sums.size());
  std::vector<TokenRows> rows;  // the whole row each time, with the targets of one document
  for (std::int32_t d = 0, end = 0; d < documents; ++d) {
    const std::int32_t begin = end;
    end += model_.packed_numbers["lengths"][static_cast<std::size_t>(d)].get<std::int32_t>();
    rows.push_back(row_);
    std::fill(rows.back().targets.begin(), rows.back().targets.begin() + begin, -1);
    std::fill(rows.back().targets.begin() + end, rows.back().targets.end(), -1);
  }
  const Lowered l = lowered_for_test(
      model_.config, {.phase = Phase::eval, .micro_batches = documents, .shapes = {{64, 0}}});
  ResidentRun run(l, table_under_test());
  model_.fill_weights(l, run);
  model_.fill_step(l, run, rows, {});
  const Status status = run.forward_pass();
  ASSERT_TRUE(status.ok()) << status.message();
  double targets = 0;
  for (std::int32_t d = 0; d < documents; ++d) {
    const double* const loss = run.as<double>(l.bindings.loss, d);
    const double expected = sums[static_cast<std::size_t>(d)];
    EXPECT_NEAR(loss[0], expected, loss_limit * std::max(1.0, loss[1])) << "document " << d;
    targets += loss[1];
  }
  EXPECT_EQ(targets, model_.packed_numbers["targets"].get<double>());
}

TEST_P(Packed, GradientsInEveryPolicyAndLayout) {
  LowerOptions options = {.phase = Phase::train, .shapes = {{64, 0}}};
  for (const std::int64_t elements : {largest_block_elements, std::int64_t{1024}}) {
    options.block_elements = elements;
    const Lowered l = lowered_for_test(model_.config, options);
    for (const std::int32_t alternative : {0, 1}) {
      ResidentRun run(l, table_under_test());
      model_.fill_weights(l, run);
      model_.fill_step(l, run, {row_}, {.learning_rate = 0, .step = 1});
      const Status status = run.train_step(choice_for(l, alternative, 1, Window::after));
      ASSERT_TRUE(status.ok()) << status.message();
      expect_gradients(l, run, model_.packed, model_.packed_numbers);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Packed, testing::ValuesIn(models_under_test()), model_name);

}  // namespace
}  // namespace parbuckle
