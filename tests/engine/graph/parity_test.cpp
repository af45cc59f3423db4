// Lowered programs against the reference values of small models, on the operators under test: with plain loops what is tested is
// the graph, its backward, and the lowering.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/engine/graph/fixture_run.h"
#include "tests/support/fixture_model.h"
#include "tests/support/shared_path.h"
#include "tests/support/table_under_test.h"

namespace parbuckle {
namespace {

constexpr StepScalars fixture_step = {
    .learning_rate = 3e-3F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .weight_decay = 0.1F};

LowerOptions train_options() {
  return {.phase = Phase::train, .micro_batches = fixture_micro_batches, .shapes = {{64, 0}}};
}

class Parity : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    PARBUCKLE_NEEDS_SHARED("fixtures/models/" + GetParam());
    model_ = fixture_model(GetParam());
  }

  /// Runs the five steps of the fixture; returns weights and moments after them.
  std::vector<float> five_steps(const Lowered& l, const Choice& choice, float max_norm) const {
    ResidentRun run(l, table_under_test());
    model_.fill_weights(l, run);
    const auto& records = model_.numbers[max_norm > 0 ? "clipped" : "adamw"];
    for (std::size_t s = 0; s < records.size(); ++s) {
      StepScalars step = fixture_step;
      step.max_norm = max_norm;
      step.step = static_cast<std::int64_t>(s) + 1;
      model_.fill_step(l, run, step);
      const Status status = run.train_step(choice);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_NEAR(loss_of(l, run), records[s]["loss"], loss_limit) << "step " << s + 1;
      if (choice.window != Window::fused) {
        EXPECT_NEAR(
            run.as<UpdateScalars>(l.bindings.update)->norm, records[s]["grad_norm"], norm_limit)
            << "step " << s + 1;
      }
    }
    EXPECT_TRUE(run.apply_pending().ok());
    std::vector<float> state;
    for (const ParameterPlacement& p : l.parameters) {
      for (const auto which :
           {&ParameterPiece::weight, &ParameterPiece::moment1, &ParameterPiece::moment2}) {
        const std::vector<float> values = run.parameter(p.name, which);
        state.insert(state.end(), values.begin(), values.end());
      }
    }
    expect_final_loss(l, run, max_norm > 0 ? "clipped_final_loss" : "adamw_final_loss");
    return state;
  }

  /// The loss after the last update, by one more step without a learning rate.
  void expect_final_loss(const Lowered& l, ResidentRun& run, const char* which) const {
    model_.fill_step(l, run, {.learning_rate = 0, .step = 1});
    const Status status = run.train_step(choice_for(l, 0, fixture_micro_batches, Window::after));
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_NEAR(loss_of(l, run), model_.numbers[which], loss_limit) << which;
  }

  /// `state` as five_steps returns it. Entries whose gradient is rounding noise are left out: Adam's first update is
  /// their sign. Moments are compared where the fixture has them; the root of the second is as large as a gradient.
  void expect_state(const std::string& run,
                    const Lowered& l,
                    const std::vector<float>& state) const {
    std::size_t at = 0;
    for (const ParameterPlacement& p : l.parameters) {
      const std::vector<double>& gradient = model_.expected.at("grad." + p.name);
      const std::vector<double>& weight = model_.expected.at(run + ".weight." + p.name);
      const auto moment1 = model_.expected.find(run + ".exp_avg." + p.name);
      const auto moment2 = model_.expected.find(run + ".exp_avg_sq." + p.name);
      const std::size_t count = weight.size();
      for (std::size_t i = 0; i < count; ++i) {
        if (std::abs(gradient[i]) < noise_gradient) {
          continue;
        }
        ASSERT_NEAR(state[at + i], weight[i], weight_limit) << p.name << "[" << i << "]";
        if (moment1 != model_.expected.end()) {
          const double m = moment1->second[i];
          const double v = std::sqrt(moment2->second[i]);
          ASSERT_NEAR(state[at + count + i], m, moment_limit(m)) << p.name << "[" << i << "]";
          ASSERT_NEAR(std::sqrt(state[at + 2 * count + i]), v, moment_limit(v))
              << p.name << "[" << i << "]";
        }
      }
      at += 3 * count;
    }
  }

  FixtureModel model_;
};

/// One step without a learning rate: loss, norm and every gradient.
TEST_P(Parity, GradientsInEveryOrderAndLayout) {
  LowerOptions options = train_options();
  for (const std::int64_t elements : {largest_block_elements, std::int64_t{1024}}) {
    for (const std::int64_t one_pass : {one_pass_vocabulary, std::int64_t{0}}) {
      options.block_elements = elements;
      options.one_pass_vocabulary = one_pass;
      const Lowered l = lowered_for_test(model_.config, options);
      for (const std::int32_t alternative : {0, 1}) {
        ResidentRun run(l, table_under_test());
        model_.fill_weights(l, run);
        model_.fill_step(l, run, {.learning_rate = 0, .step = 1});
        const std::int32_t group = alternative == 0 ? fixture_micro_batches : 1;
        const Status status = run.train_step(choice_for(l, alternative, group, Window::after));
        ASSERT_TRUE(status.ok()) << status.message();
        expect_gradients(l, run, model_.expected, model_.numbers);
      }
    }
  }
}

TEST_P(Parity, FiveStepsOfAdamWAreTheSameBitsInEveryWindowOrderAndPolicy) {
  const Lowered l = lowered_for_test(model_.config, train_options());
  const std::vector<float> first =
      five_steps(l, choice_for(l, 0, fixture_micro_batches, Window::after), 0);
  expect_state("adamw", l, first);
  for (const Window window : {Window::after, Window::lazy, Window::fused}) {
    for (const std::int32_t alternative : {0, 1}) {
      for (const std::int32_t group : {1, 2, fixture_micro_batches}) {
        EXPECT_EQ(five_steps(l, choice_for(l, alternative, group, window), 0), first)
            << to_string(window) << " alternative " << alternative << " group " << group;
      }
    }
  }
}

TEST_P(Parity, ClippedStepsAreTheSameBitsNowAndLater) {
  LowerOptions options = train_options();
  options.clipping = true;
  const Lowered l = lowered_for_test(model_.config, options);
  const std::vector<float> now =
      five_steps(l, choice_for(l, 0, fixture_micro_batches, Window::after), 0.5F);
  expect_state("clipped", l, now);
  EXPECT_EQ(five_steps(l, choice_for(l, 1, 1, Window::lazy), 0.5F), now);
}

/// Parameters, moments and tables cut into blocks of a few rows train as well as whole ones.
TEST_P(Parity, FiveStepsInSmallBlocks) {
  LowerOptions options = train_options();
  options.block_elements = 1024;
  options.one_pass_vocabulary = 0;
  const Lowered l = lowered_for_test(model_.config, options);
  expect_state(
      "adamw", l, five_steps(l, choice_for(l, 0, fixture_micro_batches, Window::fused), 0));
}

TEST_P(Parity, EvalGivesTheLossOfTraining) {
  LowerOptions options = train_options();
  options.phase = Phase::eval;
  options.block_elements = 1024;
  const Lowered l = lowered_for_test(model_.config, options);
  ResidentRun run(l, table_under_test());
  model_.fill_weights(l, run);
  model_.fill_step(l, run, {});
  const Status status = run.forward_pass();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_NEAR(loss_of(l, run), model_.numbers["loss"], loss_limit);
  for (std::int32_t m = 0; m < fixture_micro_batches; ++m) {
    const double* const loss = run.as<double>(l.bindings.loss, m);
    const auto index = static_cast<std::size_t>(m);
    EXPECT_NEAR(loss[0], model_.numbers["loss_sums"][index], loss_limit * std::max(1.0, loss[1]));
    EXPECT_EQ(loss[1], model_.numbers["targets"][index].get<double>());
  }
}

TEST_P(Parity, TrainingForwardGivesTheReferenceLogits) {
  expect_logits(forward_logits(model_, model_.step_rows().front()), model_.expected.at("logits"));
}

INSTANTIATE_TEST_SUITE_P(Models, Parity, testing::ValuesIn(models_under_test()), model_name);

}  // namespace
}  // namespace parbuckle
