#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/op_table.h"
#include "tests/support/float64_ops.h"
#include "tests/support/near.h"
#include "tests/support/op_call.h"

namespace parbuckle {
namespace {

using reference::Ids;
using reference::Values;
using testing::close;
using testing::OpCall;
using testing::random_floats;
using testing::same_bits;

std::unique_ptr<cpu::Context> context() {
  return std::move(cpu::Context::create(2)).value();
}

constexpr std::int64_t width = 40;
constexpr double loss_scale = 0.125;

/// Every `every`-th row has a target, padding at the end has none.
Ids spread_targets(std::int64_t rows, std::int64_t every, std::int64_t vocabulary) {
  Ids targets(static_cast<std::size_t>(rows), -1);
  for (std::int64_t row = 0; row + 3 < rows; row += every) {
    targets[static_cast<std::size_t>(row)] = static_cast<std::int32_t>((row * 37 + 5) % vocabulary);
  }
  return targets;
}

struct Head {
  Ids targets;
  std::vector<std::int64_t> part_sizes;
  std::vector<float> h, dh;
  std::vector<std::vector<float>> parts, gradients;
  std::vector<double> loss{NAN, NAN};
  StepScalars step;

  Head(Ids wanted, std::vector<std::int64_t> sizes, double magnitude = 1)
      : targets(std::move(wanted)), part_sizes(std::move(sizes)) {
    const auto rows = static_cast<std::int64_t>(targets.size());
    h = random_floats(1, rows * width, magnitude);
    dh.assign(h.size(), NAN);
    step.loss_scale = loss_scale;
    std::uint64_t seed = 100;
    for (const std::int64_t size : part_sizes) {
      parts.push_back(random_floats(seed++, size * width));
      gradients.push_back(random_floats(seed++, size * width, 0.1));
    }
  }

  Status one_pass(const OpTable& table) {
    Attributes a;
    a.parts = static_cast<std::int32_t>(parts.size());
    OpCall call(OpKind::head_loss, a);
    call.rows(h, width).with(targets).with_struct(step).with(loss).rows(dh, width);
    for (auto& part : parts) {
      call.rows(part, width);
    }
    for (auto& gradient : gradients) {
      call.rows(gradient, width);
    }
    return call.run(table);
  }

  Status two_passes(const OpTable& table) {
    std::vector<float> stats(targets.size() * 4, NAN);
    Attributes a;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      a.first = part == 0;
      OpCall call(OpKind::head_stats, a);
      call.rows(h, width).with(targets).rows(parts[part], width).rows(stats, 4);
      PARBUCKLE_TRY(call.run(table));
      a.row_begin += part_sizes[part];
    }
    PARBUCKLE_TRY(
        OpCall(OpKind::head_stats_loss).rows(stats, 4).with(targets).with(loss).run(table));
    a.row_begin = 0;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      a.first = part == 0;
      OpCall call(OpKind::head_grad, a);
      call.rows(h, width).with(targets).with_struct(step).rows(parts[part], width);
      call.rows(gradients[part], width).rows(stats, 4).rows(dh, width);
      PARBUCKLE_TRY(call.run(table));
      a.row_begin += part_sizes[part];
    }
    return {};
  }
};

void expect_reference(const Head& head, const Head& start) {
  Values table;
  Values gradient;
  for (std::size_t part = 0; part < head.parts.size(); ++part) {
    table.insert(table.end(), head.parts[part].begin(), head.parts[part].end());
  }
  const auto expected =
      reference::head_loss(reference::widen(head.h), table, head.targets, width, loss_scale);
  EXPECT_NEAR(head.loss[0], expected.loss, 1e-6 * expected.loss);
  EXPECT_EQ(head.loss[1], expected.targets);
  EXPECT_TRUE(close(head.dh, expected.dh, 3e-6));
  std::size_t at = 0;
  for (std::size_t part = 0; part < head.parts.size(); ++part) {
    Values wanted = reference::widen(start.gradients[part]);
    for (double& value : wanted) {
      value += expected.dtable[at++];
    }
    EXPECT_TRUE(close(head.gradients[part], wanted, 3e-6));
  }
}

TEST(Head, BothFormsEqualTheReference) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  struct Case {
    std::int64_t rows, every;
    std::vector<std::int64_t> parts;
  };
  const std::vector<Case> cases{{5, 1, {7}},
                                {64, 3, {50, 31}},
                                {192, 1, {100, 100, 3}},
                                {320, 1, {64, 17}},
                                {600, 1, {33, 40}},
                                {600, 2, {33, 40}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(std::to_string(c.rows) + " rows, a target every " + std::to_string(c.every));
    std::int64_t vocabulary = 0;
    for (const std::int64_t size : c.parts) {
      vocabulary += size;
    }
    const Head start(spread_targets(c.rows, c.every, vocabulary), c.parts);
    Head one = start;
    ASSERT_OK(one.one_pass(table));
    expect_reference(one, start);
    Head two = start;
    ASSERT_OK(two.two_passes(table));
    expect_reference(two, start);
  }
}

TEST(Head, ReferenceGradientsEqualFiniteDifferences) {
  const Ids targets{2, -1, 0};
  const Values h = reference::widen(random_floats(1, 3 * 4));
  const Values e = reference::widen(random_floats(2, 5 * 4));
  const auto g = reference::head_loss(h, e, targets, 4, loss_scale);
  for (std::size_t i = 0; i < h.size(); ++i) {
    const double slope = reference::difference(
        [&](const Values& x) { return reference::head_loss(x, e, targets, 4, 1).loss; }, h, i);
    EXPECT_NEAR(g.dh[i], slope * loss_scale, 1e-8);
  }
  for (std::size_t i = 0; i < e.size(); ++i) {
    const double slope = reference::difference(
        [&](const Values& x) { return reference::head_loss(h, x, targets, 4, 1).loss; }, e, i);
    EXPECT_NEAR(g.dtable[i], slope * loss_scale, 1e-8);
  }
}

TEST(Head, WithoutAnyTargetNothingChangesButDh) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  const Head start(Ids(70, -1), {20, 10});
  for (const bool two : {false, true}) {
    Head head = start;
    ASSERT_OK(two ? head.two_passes(table) : head.one_pass(table));
    EXPECT_EQ(head.loss[0], 0.0);
    EXPECT_EQ(head.loss[1], 0.0);
    EXPECT_TRUE(same_bits(head.dh, std::vector<float>(head.h.size(), 0.0F)));
    EXPECT_TRUE(same_bits(head.gradients[0], start.gradients[0]));
  }
}

TEST(Head, LogitsInTheHundredsStayFinite) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  const Head start(spread_targets(64, 1, 30), {30}, 200);
  Head head = start;
  ASSERT_OK(head.one_pass(table));
  const auto expected = reference::head_loss(
      reference::widen(head.h), reference::widen(head.parts[0]), head.targets, width, loss_scale);
  EXPECT_NEAR(head.loss[0], expected.loss, 1e-6 * expected.loss);
  // A logit near 1000 carries a rounding of 3e-5, which is the relative error of its probability.
  EXPECT_TRUE(close(head.dh, expected.dh, 1e-4));
}

TEST(Head, ANonFiniteStateShowsInTheLoss) {
  const auto on = context();
  Head head(spread_targets(64, 1, 30), {30});
  head.h[5 * width] = NAN;
  ASSERT_OK(head.one_pass(cpu::cpu_op_table(*on)));
  EXPECT_FALSE(std::isfinite(head.loss[0]));
}

TEST(Head, ATargetOutsideTheVocabularyIsRefused) {
  const auto on = context();
  Head head({1, 30}, {20, 10});
  const Status status = head.one_pass(cpu::cpu_op_table(*on));
  EXPECT_EQ(status.message(), "target 30 of row 1: the vocabulary has 30 entries");
}

TEST(Head, TwoRunsGiveTheSameBits) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  const Head start(spread_targets(320, 1, 81), {64, 17});
  Head first = start;
  Head second = start;
  ASSERT_OK(first.one_pass(table));
  ASSERT_OK(second.one_pass(table));
  EXPECT_TRUE(same_bits(first.loss, second.loss));
  EXPECT_TRUE(same_bits(first.dh, second.dh));
  EXPECT_TRUE(same_bits(first.gradients[0], second.gradients[0]));
  EXPECT_TRUE(same_bits(first.gradients[1], second.gradients[1]));
}

}  // namespace
}  // namespace parbuckle
