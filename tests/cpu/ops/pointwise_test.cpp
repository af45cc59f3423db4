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

constexpr Activation activations[] = {
    Activation::silu, Activation::gelu_exact, Activation::gelu_tanh, Activation::relu};

std::unique_ptr<cpu::Context> context() {
  return std::move(cpu::Context::create(2)).value();
}

Attributes with(Activation kind) {
  Attributes a;
  a.activation = kind;
  return a;
}

/// Random values, and the range from -100 to 100 where exponentials run out.
std::vector<float> wide_range(std::uint64_t seed) {
  auto x = random_floats(seed, 5000, 6);
  for (int i = -1000; i <= 1000; ++i) {
    x.push_back(static_cast<float>(i) * 0.1F);
  }
  return x;
}

TEST(Activation, ValuesAndSlopesEqualTheReference) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const Activation kind : activations) {
    SCOPED_TRACE(to_string(kind));
    auto x = wide_range(1);
    auto dy = random_floats(2, static_cast<std::int64_t>(x.size()));
    std::vector<float> y(x.size());
    std::vector<float> dx(x.size());
    ASSERT_OK(OpCall(OpKind::activation_forward, with(kind)).with(x).with(y).run(table));
    ASSERT_OK(OpCall(OpKind::activation_backward, with(kind)).with(x).with(dy).with(dx).run(table));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double value = reference::activate(kind, x[i]);
      const double slope = reference::slope(kind, x[i]) * static_cast<double>(dy[i]);
      ASSERT_NEAR(y[i], value, 1e-6 * std::abs(value) + 1e-7) << "at " << x[i];
      ASSERT_NEAR(dx[i], slope, 1e-6) << "at " << x[i];
    }
    auto in_place = dy;
    ASSERT_OK(OpCall(OpKind::activation_backward, with(kind))
                  .with(x)
                  .with(in_place)
                  .with(in_place)
                  .run(table));
    EXPECT_TRUE(same_bits(in_place, dx));
  }
}

TEST(Gated, EqualsTheReferenceAndMayWriteOverItsInputs) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const Activation kind : activations) {
    SCOPED_TRACE(to_string(kind));
    auto gate = wide_range(3);
    const auto n = static_cast<std::int64_t>(gate.size());
    auto up = random_floats(4, n);
    auto dy = random_floats(5, n);
    std::vector<float> y(gate.size());
    std::vector<float> dgate(gate.size());
    std::vector<float> dup(gate.size());
    ASSERT_OK(OpCall(OpKind::gated_forward, with(kind)).with(gate).with(up).with(y).run(table));
    OpCall backward(OpKind::gated_backward, with(kind));
    ASSERT_OK(backward.with(gate).with(up).with(dy).with(dgate).with(dup).run(table));
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double value = reference::activate(kind, gate[i]);
      const double wide_up = up[i];
      const double wide_dy = dy[i];
      ASSERT_NEAR(y[i], value * wide_up, 1e-6 * std::abs(value) + 1e-7);
      ASSERT_NEAR(dup[i], value * wide_dy, 1e-6 * std::abs(value) + 1e-7);
      ASSERT_NEAR(dgate[i], wide_dy * wide_up * reference::slope(kind, gate[i]), 1e-6);
    }
    auto gate_copy = gate;
    auto up_copy = up;
    OpCall over(OpKind::gated_backward, with(kind));
    ASSERT_OK(over.with(gate_copy).with(up_copy).with(dy).with(gate_copy).with(up_copy).run(table));
    EXPECT_TRUE(same_bits(gate_copy, dgate));
    EXPECT_TRUE(same_bits(up_copy, dup));
    OpCall forward_over(OpKind::gated_forward, with(kind));
    auto up_again = up;
    ASSERT_OK(forward_over.with(gate).with(up_again).with(up_again).run(table));
    EXPECT_TRUE(same_bits(up_again, y));
  }
}

// silu(-x) = -x e^-x / (1 + e^-x): with x this large its relative error is that of the exponential.
TEST(Exponential, IsWithinTwoUnitsInTheLastPlace) {
  const auto& kernels = cpu::kernels_for(cpu::best_isa());
  double worst = 0;
  for (float x = -87.0F; x < 88.0F; x += 0.00137F) {
    const float found = kernels.sum_of_exponentials(&x, 1, 0.0F);
    const double exact = std::exp(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::ilogb(static_cast<float>(exact)) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(found) - exact) / unit);
  }
  EXPECT_LT(worst, 2.0);
  const auto of = [&](float x) { return kernels.sum_of_exponentials(&x, 1, 0.0F); };
  EXPECT_EQ(of(0), 1.0F);
  EXPECT_EQ(of(-INFINITY), 0.0F);
  EXPECT_EQ(of(-200), 0.0F);
  EXPECT_TRUE(std::isnan(of(NAN)));
}

TEST(Elementwise, AddCopyAndFill) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const std::int64_t n : {1, 15, 17, 4096, 9999}) {
    auto a = random_floats(1, n);
    auto b = random_floats(2, n);
    std::vector<float> y(a.size(), NAN);
    ASSERT_OK(OpCall(OpKind::add).with(a).with(b).with(y).run(table));
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], a[i] + b[i]);
    }
    ASSERT_OK(OpCall(OpKind::add).with(a).with(b).with(a).run(table));
    EXPECT_TRUE(same_bits(a, y));
    std::vector<std::int32_t> ids(a.size(), 7);
    std::vector<std::int32_t> copy(a.size(), 0);
    ASSERT_OK(OpCall(OpKind::copy).with(ids).with(copy).run(table));
    EXPECT_EQ(ids, copy);
    ASSERT_OK(OpCall(OpKind::fill_zero).with(y).run(table));
    EXPECT_TRUE(same_bits(y, std::vector<float>(y.size(), 0.0F)));
  }
}

TEST(Rope, TurnsAndTurnsBack) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const std::int64_t half : {1, 5, 32}) {
    Ids positions{0, 1, 2, 100, 8191, 131071, -1};
    const auto rows = static_cast<std::int64_t>(positions.size());
    std::vector<float> frequencies;
    for (std::int64_t i = 0; i < half; ++i) {
      frequencies.push_back(static_cast<float>(
          std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half))));
    }
    Attributes a;
    a.scale = 1;
    a.heads = 3;
    a.head_dim = static_cast<std::int32_t>(2 * half);
    std::vector<float> angles(static_cast<std::size_t>(rows * 2 * half));
    OpCall make(OpKind::rope_table, a);
    ASSERT_OK(make.with(positions).with(frequencies).rows(angles, 2 * half).run(table));
    EXPECT_EQ(angles[reference::at(6, 2 * half, 0)], 1.0F);
    EXPECT_EQ(angles[reference::at(6, 2 * half, half)], 0.0F);
    const auto start = random_floats(9, rows * 6 * half);
    auto x = start;
    OpCall turn(OpKind::rope_forward, a);
    ASSERT_OK(turn.rows(x, 6 * half).rows(angles, 2 * half).run(table));
    const Values expected =
        reference::rotate(reference::widen(start), positions, reference::widen(frequencies), 1);
    EXPECT_TRUE(close(x, expected, 2e-7));
    OpCall back(OpKind::rope_backward, a);
    ASSERT_OK(back.rows(x, 6 * half).rows(angles, 2 * half).run(table));
    EXPECT_TRUE(close(x, reference::widen(start), 3e-7));
  }
}

TEST(Rope, ScaleMultipliesTheTableAndNoneMeansOne) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  Ids positions{5};
  std::vector<float> frequencies{0.5F};
  for (const float scale : {0.0F, 1.0F, 1.5F}) {
    Attributes a;
    a.scale = scale;
    std::vector<float> angles(2);
    ASSERT_OK(
        OpCall(OpKind::rope_table, a).with(positions).with(frequencies).rows(angles, 2).run(table));
    const double factor = scale == 0 ? 1 : static_cast<double>(scale);
    EXPECT_NEAR(angles[0], std::cos(2.5) * factor, 1e-7);
    EXPECT_NEAR(angles[1], std::sin(2.5) * factor, 1e-7);
  }
}

TEST(Embedding, PartsTogetherFillEveryRow) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  constexpr std::int64_t width = 37;
  Ids tokens{3, -1, 0, 9, 5, 3, 6};
  auto whole = random_floats(1, 10 * width);
  std::vector<float> low(whole.begin(), whole.begin() + 6 * width);
  std::vector<float> high(whole.begin() + 6 * width, whole.end());
  std::vector<float> to(tokens.size() * width, NAN);
  Attributes second;
  second.row_begin = 6;
  ASSERT_OK(
      OpCall(OpKind::embedding_forward).with(tokens).rows(low, width).rows(to, width).run(table));
  ASSERT_OK(OpCall(OpKind::embedding_forward, second)
                .with(tokens)
                .rows(high, width)
                .rows(to, width)
                .run(table));
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    for (std::size_t i = 0; i < width; ++i) {
      const float expected =
          tokens[row] < 0 ? 0 : whole[static_cast<std::size_t>(tokens[row]) * width + i];
      ASSERT_EQ(to[row * width + i], expected);
    }
  }
}

TEST(Embedding, PositionsAreAddedAndChecked) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  Ids positions{0, 2, -1};
  auto rows = random_floats(1, 3 * 5);
  std::vector<float> to(15, 1.0F);
  ASSERT_OK(OpCall(OpKind::position_forward).with(positions).rows(rows, 5).rows(to, 5).run(table));
  EXPECT_EQ(to[0], 1.0F + rows[0]);
  EXPECT_EQ(to[5], 1.0F + rows[10]);
  EXPECT_EQ(to[10], 1.0F);
  positions[1] = 3;
  const Status status =
      OpCall(OpKind::position_forward).with(positions).rows(rows, 5).rows(to, 5).run(table);
  EXPECT_EQ(status.code(), Code::invalid_argument);
}

TEST(Embedding, GradientsOfRepeatedTokensAddUpInRowOrder) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  constexpr std::int64_t width = 130;
  Ids slots{1, 0, -1, 1, 1, 2};
  auto dy = random_floats(3, 6 * width);
  const auto start = random_floats(4, 3 * width);
  auto gradient = start;
  OpCall call(OpKind::embedding_backward);
  ASSERT_OK(call.with(slots).rows(dy, width).rows(gradient, width).run(table));
  auto expected = start;
  for (std::size_t row = 0; row < slots.size(); ++row) {
    for (std::size_t i = 0; slots[row] >= 0 && i < width; ++i) {
      expected[static_cast<std::size_t>(slots[row]) * width + i] += dy[row * width + i];
    }
  }
  EXPECT_TRUE(same_bits(gradient, expected));
}

}  // namespace
}  // namespace parbuckle
