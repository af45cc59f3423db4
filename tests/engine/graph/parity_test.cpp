// Lowered programs against the reference values of two small models, with plain loops as ops: what is tested is the graph,
// its backward, and the lowering.
#include <cmath>

#include <gtest/gtest.h>

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

Lowered lowered(const ModelConfig& config, const LowerOptions& options) {
  auto result = lower(config, options, table_under_test());
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : Lowered{};
}

Choice choice_for(const Lowered& l, std::int32_t alternative, std::int32_t group, Window window) {
  Choice choice = {.group = group, .window = window};
  for (const Unit& unit : l.workload.units) {
    choice.alternative.push_back(unit.alternatives.size() > 1 ? alternative : 0);
  }
  return choice;
}

double loss_of(const Lowered& l, ResidentRun& run) {
  double sum = 0;
  double targets = 0;
  for (std::int32_t m = 0; m < fixture_micro_batches; ++m) {
    sum += run.as<double>(l.bindings.loss, m)[0];
    targets += run.as<double>(l.bindings.loss, m)[1];
  }
  return sum / targets;
}

/// Dense gradient of a parameter; an untied embedding has sparse rows only.
std::vector<float> gradient_of(const Lowered& l,
                               ResidentRun& run,
                               const ParameterPlacement& placement) {
  const bool table = placement.name == l.graph.values.front().name;
  std::vector<float> dense;
  if (placement.pieces.front().gradient.valid()) {
    dense = run.parameter(placement.name, &ParameterPiece::gradient);
  }
  if (!table) {
    return dense;
  }
  const std::int64_t h = l.graph.values.front().columns;
  dense.resize(static_cast<std::size_t>(l.graph.values.front().rows * h), 0.0F);
  const auto* const touched = run.as<const TouchedRows>(l.bindings.touched);
  const auto* const ids = reinterpret_cast<const std::int32_t*>(touched + 1);
  for (std::size_t s = 0; s < l.workload.spans.size(); ++s) {
    if (l.workload.spans[s].name != "embedding.sparse_gradient") {
      continue;
    }
    const float* const rows = run.as<float>(SpanId(s));
    for (std::int64_t i = 0; i < touched->count * h; ++i) {
      dense[static_cast<std::size_t>(ids[i / h] * h + i % h)] += rows[i];
    }
  }
  return dense;
}

class Parity : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    PARBUCKLE_NEEDS_SHARED(std::string("fixtures/models/") + GetParam());
    model_ = fixture_model(GetParam());
  }

  void expect_gradients(const Lowered& l, ResidentRun& run) const {
    EXPECT_NEAR(loss_of(l, run), model_.numbers["loss"], 1e-5);
    EXPECT_NEAR(run.as<UpdateScalars>(l.bindings.update)->norm, model_.numbers["grad_norm"], 5e-5);
    for (const ParameterPlacement& placement : l.parameters) {
      const std::vector<double>& expected = model_.expected.at("grad." + placement.name);
      const std::vector<float> found = gradient_of(l, run, placement);
      ASSERT_EQ(found.size(), expected.size()) << placement.name;
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], 2e-6 + 1e-4 * std::abs(expected[i]))
            << placement.name << "[" << i << "]";
      }
    }
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
      EXPECT_NEAR(loss_of(l, run), records[s]["loss"], 1e-5) << "step " << s + 1;
      if (choice.window != Window::fused) {
        EXPECT_NEAR(run.as<UpdateScalars>(l.bindings.update)->norm, records[s]["grad_norm"], 5e-5)
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
    return state;
  }

  /// `state` as five_steps returns it. Entries whose gradient is rounding noise are left out: Adam's first update is
  /// their sign.
  void expect_weights(const std::string& run,
                      const Lowered& l,
                      const std::vector<float>& state) const {
    std::size_t at = 0;
    for (const ParameterPlacement& p : l.parameters) {
      const std::vector<double>& gradient = model_.expected.at("grad." + p.name);
      const std::vector<double>& expected = model_.expected.at(run + ".weight." + p.name);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (std::abs(gradient[i]) >= 1e-6) {
          ASSERT_NEAR(state[at + i], expected[i], 5e-5) << p.name << "[" << i << "]";
        }
      }
      at += 3 * expected.size();
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
      const Lowered l = lowered(model_.config, options);
      for (const std::int32_t alternative : {0, 1}) {
        ResidentRun run(l, table_under_test());
        model_.fill_weights(l, run);
        model_.fill_step(l, run, {.learning_rate = 0, .step = 1});
        const std::int32_t group = alternative == 0 ? fixture_micro_batches : 1;
        const Status status = run.train_step(choice_for(l, alternative, group, Window::after));
        ASSERT_TRUE(status.ok()) << status.message();
        expect_gradients(l, run);
      }
    }
  }
}

TEST_P(Parity, FiveStepsOfAdamWAreTheSameBitsInEveryWindowOrderAndPolicy) {
  const Lowered l = lowered(model_.config, train_options());
  const std::vector<float> first =
      five_steps(l, choice_for(l, 0, fixture_micro_batches, Window::after), 0);
  expect_weights("adamw", l, first);
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
  const Lowered l = lowered(model_.config, options);
  const std::vector<float> now =
      five_steps(l, choice_for(l, 0, fixture_micro_batches, Window::after), 0.5F);
  expect_weights("clipped", l, now);
  EXPECT_EQ(five_steps(l, choice_for(l, 1, 1, Window::lazy), 0.5F), now);
}

/// Parameters, moments and tables cut into blocks of a few rows train as well as whole ones.
TEST_P(Parity, FiveStepsInSmallBlocks) {
  LowerOptions options = train_options();
  options.block_elements = 1024;
  options.one_pass_vocabulary = 0;
  const Lowered l = lowered(model_.config, options);
  expect_weights(
      "adamw", l, five_steps(l, choice_for(l, 0, fixture_micro_batches, Window::fused), 0));
}

TEST_P(Parity, EvalGivesTheLossOfTraining) {
  LowerOptions options = train_options();
  options.phase = Phase::eval;
  options.block_elements = 1024;
  const Lowered l = lowered(model_.config, options);
  ResidentRun run(l, table_under_test());
  model_.fill_weights(l, run);
  model_.fill_step(l, run, {});
  const Status status = run.forward_pass();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_NEAR(loss_of(l, run), model_.numbers["loss"], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    Parity,
    testing::Values("llama_gqa_untied", "gpt2_tied", "qwen3", "llama_bias", "mistral_window"));

}  // namespace
}  // namespace parbuckle
