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

using reference::Values;
using testing::close;
using testing::OpCall;
using testing::random_floats;
using testing::same_bits;

std::unique_ptr<cpu::Context> context() {
  return std::move(cpu::Context::create(2)).value();
}

struct Layer {
  std::int64_t rows, inputs, outputs;
  bool in_out;
};

const Layer layers[] = {{1, 1, 1, false},
                        {64, 48, 33, false},
                        {64, 48, 33, true},
                        {37, 130, 7, false},
                        {37, 7, 130, true},
                        {256, 64, 192, false}};

std::string name_of(const Layer& l) {
  return std::to_string(l.rows) + " rows, " + std::to_string(l.inputs) + " to " +
         std::to_string(l.outputs) + (l.in_out ? ", in_out" : "");
}

/// The weight as (I,O).
Values as_in_out(const std::vector<float>& w, const Layer& l) {
  return l.in_out ? reference::widen(w) : reference::transposed(reference::widen(w), l.outputs);
}

void add_to(Values& to, const std::vector<float>& start) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] += static_cast<double>(start[i]);
  }
}

TEST(Linear, ForwardWithAndWithoutBias) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const Layer& l : layers) {
    SCOPED_TRACE(name_of(l));
    auto x = random_floats(1, l.rows * l.inputs);
    auto w = random_floats(2, l.inputs * l.outputs);
    auto bias = random_floats(3, l.outputs);
    std::vector<float> y(static_cast<std::size_t>(l.rows * l.outputs), NAN);
    Attributes a;
    a.in_out = l.in_out;
    const std::int64_t columns = l.in_out ? l.outputs : l.inputs;
    OpCall plain(OpKind::linear_forward, a);
    ASSERT_OK(plain.rows(x, l.inputs).rows(w, columns).rows(y, l.outputs).run(table));
    Values expected = reference::product(reference::widen(x), as_in_out(w, l), l.rows, l.inputs);
    EXPECT_TRUE(close(y, expected, 1e-6));
    OpCall biased(OpKind::linear_forward, a);
    ASSERT_OK(biased.rows(x, l.inputs).rows(w, columns).rows(y, l.outputs).with(bias).run(table));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] += static_cast<double>(bias[i % bias.size()]);
    }
    EXPECT_TRUE(close(y, expected, 1e-6));
  }
}

TEST(Linear, BackwardInputWritesOrAdds) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const Layer& l : layers) {
    SCOPED_TRACE(name_of(l));
    auto dy = random_floats(1, l.rows * l.outputs);
    auto w = random_floats(2, l.inputs * l.outputs);
    const auto start = random_floats(3, l.rows * l.inputs);
    Values expected = reference::product(
        reference::widen(dy), reference::transposed(as_in_out(w, l), l.inputs), l.rows, l.outputs);
    for (const bool accumulate : {false, true}) {
      Attributes a;
      a.in_out = l.in_out;
      a.accumulate = accumulate;
      auto dx = accumulate ? start : std::vector<float>(start.size(), NAN);
      OpCall call(OpKind::linear_backward_input, a);
      call.rows(dy, l.outputs).rows(w, l.in_out ? l.outputs : l.inputs).rows(dx, l.inputs);
      ASSERT_OK(call.run(table));
      if (accumulate) {
        add_to(expected, start);
      }
      EXPECT_TRUE(close(dx, expected, 1e-6));
    }
  }
}

TEST(Linear, BackwardWeightAddsInTheLayoutOfTheWeight) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const Layer& l : layers) {
    SCOPED_TRACE(name_of(l));
    auto x = random_floats(1, l.rows * l.inputs);
    auto dy = random_floats(2, l.rows * l.outputs);
    const auto start = random_floats(3, l.inputs * l.outputs);
    auto dw = start;
    Attributes a;
    a.in_out = l.in_out;
    OpCall call(OpKind::linear_backward_weight, a);
    call.rows(x, l.inputs).rows(dy, l.outputs).rows(dw, l.in_out ? l.outputs : l.inputs);
    ASSERT_OK(call.run(table));
    Values expected = reference::product(
        reference::transposed(reference::widen(x), l.rows), reference::widen(dy), l.inputs, l.rows);
    if (!l.in_out) {
      expected = reference::transposed(expected, l.inputs);
    }
    add_to(expected, start);
    EXPECT_TRUE(close(dw, expected, 1e-6));
  }
}

TEST(Linear, BiasBackwardIsTheColumnSum) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const Layer& l : {Layer{1, 1, 1, false}, {200, 1, 300, false}, {64, 1, 513, false}}) {
    auto dy = random_floats(1, l.rows * l.outputs);
    const auto start = random_floats(2, l.outputs);
    auto db = start;
    ASSERT_OK(OpCall(OpKind::bias_backward).rows(dy, l.outputs).with(db).run(table));
    Values expected = reference::product(
        Values(static_cast<std::size_t>(l.rows), 1.0), reference::widen(dy), 1, l.rows);
    add_to(expected, start);
    EXPECT_TRUE(close(db, expected, 1e-6));
  }
}

TEST(Linear, SameBitsWhereverTheOperandsLie) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  const Layer l{64, 576, 192, false};
  const auto x = random_floats(1, l.rows * l.inputs);
  const auto w = random_floats(2, l.inputs * l.outputs);
  std::vector<std::vector<float>> results;
  for (const std::size_t shift : {0U, 1U, 3U, 16U}) {
    std::vector<float> moved_x(shift);
    moved_x.insert(moved_x.end(), x.begin(), x.end());
    std::vector<float> moved_w(shift + 5);
    moved_w.insert(moved_w.end(), w.begin(), w.end());
    std::vector<float> y(static_cast<std::size_t>(l.rows * l.outputs) + shift);
    OpCall call(OpKind::linear_forward);
    call.with_raw(moved_x.data() + shift, {l.rows, l.inputs, 1}, DType::f32);
    call.with_raw(moved_w.data() + shift + 5, {l.outputs, l.inputs, 1}, DType::f32);
    call.with_raw(y.data() + shift, {l.rows, l.outputs, 1}, DType::f32);
    ASSERT_OK(call.run(table));
    results.emplace_back(y.begin() + static_cast<std::ptrdiff_t>(shift), y.end());
    EXPECT_TRUE(same_bits(results.front(), results.back()));
  }
}

TEST(Linear, AShapeThatDoesNotFitIsNamed) {
  const auto on = context();
  std::vector<float> x(6);
  std::vector<float> w(9);
  std::vector<float> y(4);
  OpCall call(OpKind::linear_forward);
  const Status status = call.rows(x, 3).rows(w, 3).rows(y, 2).prepare(cpu::cpu_op_table(*on));
  EXPECT_EQ(status.message(), "linear_forward: operand 1 has 9 elements, expected 6");
}

TEST(MatmulCache, DroppingAPrimitiveDoesNotChangeBits) {
  const auto on = std::move(cpu::Context::create({.threads = 2, .matmul_primitives = 2})).value();
  const OpTable table = cpu::cpu_op_table(*on);
  std::vector<float> first;
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t rows : {64, 128, 192}) {
      auto x = random_floats(1, rows * 40);
      auto w = random_floats(2, 40 * 30);
      std::vector<float> y(static_cast<std::size_t>(rows * 30));
      ASSERT_OK(OpCall(OpKind::linear_forward).rows(x, 40).rows(w, 40).rows(y, 30).run(table));
      EXPECT_LE(on->matmuls().size(), 2);
      if (rows == 192) {
        first = first.empty() ? y : first;
        EXPECT_TRUE(same_bits(first, y));
      }
    }
  }
  EXPECT_EQ(on->resident_bytes(), 2 * 165 * 1024);
}

TEST(Context, SaysWhatBitsDependOn) {
  EXPECT_NE(context()->signature().find(", 2 threads, attention tile 64, head tile 256"),
            std::string::npos);
  EXPECT_EQ(cpu::Context::create(0).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace parbuckle
