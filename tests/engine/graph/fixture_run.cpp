#include "tests/engine/graph/fixture_run.h"

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "engine/base/check.h"
#include "tests/support/table_under_test.h"

namespace parbuckle {
namespace {

constexpr std::int64_t rows_of_pass = 64;

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

/// What the last unit reads of the one before.
SpanId boundary_of_head(const Lowered& l) {
  const Workload& w = l.workload;
  for (const Use& use : w.units.back().alternatives.front().forward.front().uses) {
    if (w.blocks[w.spans[use.span.index()].blocks.front().index()].role == Role::boundary) {
      return use.span;
    }
  }
  PARBUCKLE_CHECK(false, "the head reads no boundary");
  return {};
}

}  // namespace

Lowered lowered_for_test(const ModelConfig& config, const LowerOptions& options) {
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
  for (std::int32_t m = 0; m < l.workload.micro_batches; ++m) {
    sum += run.as<double>(l.bindings.loss, m)[0];
    targets += run.as<double>(l.bindings.loss, m)[1];
  }
  return sum / targets;
}

void expect_gradients(const Lowered& l,
                      ResidentRun& run,
                      const Tensors& expected,
                      const nlohmann::json& numbers) {
  EXPECT_NEAR(loss_of(l, run), numbers["loss"], loss_limit);
  EXPECT_NEAR(run.as<UpdateScalars>(l.bindings.update)->norm, numbers["grad_norm"], norm_limit);
  for (const ParameterPlacement& placement : l.parameters) {
    const std::vector<double>& wanted = expected.at("grad." + placement.name);
    const std::vector<float> found = gradient_of(l, run, placement);
    ASSERT_EQ(found.size(), wanted.size()) << placement.name;
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], wanted[i], gradient_limit(wanted[i]))
          << placement.name << "[" << i << "]";
    }
  }
}

std::vector<float> forward_logits(const FixtureModel& model, const TokenRows& rows) {
  const std::int64_t count = std::ssize(rows.ids);
  const Lowered body =
      lowered_for_test(model.config, {.phase = Phase::eval, .shapes = {{rows_of_pass, 0}}});
  const Lowered head = lowered_for_test(
      model.config,
      {.phase = Phase::prefill, .shapes = {{rows_of_pass, rows_of_pass}}, .logit_rows = count});
  ResidentRun forward(body, table_under_test());
  ResidentRun logits(head, table_under_test());
  model.fill_weights(body, forward);
  model.fill_weights(head, logits);
  model.fill_step(body, forward, {rows}, {});
  const Status ran = forward.forward_pass();
  EXPECT_TRUE(ran.ok()) << ran.message();
  const SpanId boundary = boundary_of_head(head);
  std::memcpy(logits.span(boundary),
              forward.span(boundary_of_head(body)),
              static_cast<std::size_t>(head.workload.spans[boundary.index()].bytes));
  auto* const selected = logits.as<std::int32_t>(head.bindings.selected);
  std::iota(selected, selected + count, 0);
  const Status headed = logits.forward_unit(head.workload.units.size() - 1);
  EXPECT_TRUE(headed.ok()) << headed.message();
  std::vector<float> out;
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t id = 0; id < model.config.vocab_size; ++id) {
      float value = 0;
      std::memcpy(&value,
                  logits.span(head.bindings.logits) + logit_offset(head.bindings, count, row, id),
                  sizeof(value));
      out.push_back(value);
    }
  }
  return out;
}

void expect_logits(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], logit_limit) << "logit " << i;
  }
}

}  // namespace parbuckle
