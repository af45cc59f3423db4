// Norms, activations, products, rotary positions, embeddings and the plain element-wise operators, on the harness.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/ops/op_case.h"

namespace parbuckle {
namespace {

using testing::OpCase;

struct Rows {
  std::int64_t count, width;
};
constexpr Rows row_shapes[] = {{1, 1}, {3, 16}, {65, 37}, {130, 200}};

Attributes norm_attributes(bool accumulate) {
  Attributes a;
  a.eps = 1e-5F;
  a.accumulate = accumulate;
  return a;
}

TEST(CudaNorm, ForwardEqualsTheReference) {
  for (const Rows& s : row_shapes) {
    SCOPED_TRACE(std::to_string(s.count) + "x" + std::to_string(s.width));
    OpCase rms(OpKind::rms_norm_forward, norm_attributes(false));
    rms.floats(s.count, s.width, 1, 3).floats(s.width, 1, 2);
    rms.floats(s.count, s.width, 0).floats(s.count, 1, 0).expect_reference(1e-6);
    OpCase layer(OpKind::layer_norm_forward, norm_attributes(false));
    layer.floats(s.count, s.width, 1, 3).floats(s.width, 1, 2).floats(s.width, 1, 3);
    layer.floats(s.count, s.width, 0).floats(s.count, 1, 0).floats(s.count, 1, 0);
    layer.expect_reference(1e-6);
  }
}

/// What the forward leaves for the backward.
struct Kept {
  std::vector<float> mean, rstd;
};
Kept keep(const Rows& s, bool layer) {
  OpCase forward(layer ? OpKind::layer_norm_forward : OpKind::rms_norm_forward,
                 norm_attributes(false));
  forward.floats(s.count, s.width, 1, 3).floats(s.width, 1, 2);
  if (layer) {
    forward.floats(s.width, 1, 3);
  }
  forward.floats(s.count, s.width, 0).floats(s.count, 1, 0);
  if (layer) {
    forward.floats(s.count, 1, 0);
  }
  const auto operands = forward.result();
  return {layer ? operands[4].as<float>() : std::vector<float>(), operands.back().as<float>()};
}

TEST(CudaNorm, BackwardEqualsTheReference) {
  for (const bool layer : {false, true}) {
    for (const Rows& s : row_shapes) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(std::to_string(s.count) + "x" + std::to_string(s.width));
        const Kept kept = keep(s, layer);
        OpCase backward(layer ? OpKind::layer_norm_backward : OpKind::rms_norm_backward,
                        norm_attributes(accumulate));
        backward.floats(s.count, s.width, 1, 3).floats(s.width, 1, 2);
        if (layer) {
          backward.values(kept.mean);
        }
        backward.values(kept.rstd).floats(s.count, s.width, 5);
        backward.floats(s.count, s.width, accumulate ? 6 : 0).floats(s.width, 1, 7);
        if (layer) {
          backward.floats(s.width, 1, 8);
        }
        backward.expect_reference(2e-6);
      }
    }
  }
}

TEST(CudaActivation, EqualsTheReference) {
  for (const Activation kind :
       {Activation::silu, Activation::gelu_exact, Activation::gelu_tanh, Activation::relu}) {
    SCOPED_TRACE(to_string(kind));
    Attributes a;
    a.activation = kind;
    for (const double scale : {3.0, 90.0}) {
      OpCase(OpKind::activation_forward, a)
          .floats(1, 777, 1, scale)
          .floats(1, 777, 0)
          .expect_reference(1e-6);
      OpCase backward(OpKind::activation_backward, a);
      backward.floats(1, 777, 1, scale).floats(1, 777, 2).floats(1, 777, 0).expect_reference(1e-6);
      OpCase gated(OpKind::gated_forward, a);
      gated.floats(7, 111, 1, scale).floats(7, 111, 2).floats(7, 111, 0).expect_reference(1e-6);
      OpCase gated_backward(OpKind::gated_backward, a);
      gated_backward.floats(7, 111, 1, scale).floats(7, 111, 2).floats(7, 111, 3);
      gated_backward.floats(7, 111, 0).floats(7, 111, 0).expect_reference(1e-6);
    }
  }
}

struct Layer {
  std::int64_t rows, inputs, outputs;
  bool in_out;
};
constexpr Layer layers[] = {{1, 1, 1, false},
                            {64, 48, 33, false},
                            {64, 48, 33, true},
                            {37, 130, 7, false},
                            {37, 7, 130, true},
                            {129, 64, 65, false}};

TEST(CudaLinear, ForwardAndBackwardEqualTheReference) {
  for (const Layer& l : layers) {
    SCOPED_TRACE(std::to_string(l.rows) + " rows, " + std::to_string(l.inputs) + " to " +
                 std::to_string(l.outputs) + (l.in_out ? ", in_out" : ""));
    Attributes a;
    a.in_out = l.in_out;
    const std::int64_t w_rows = l.in_out ? l.inputs : l.outputs;
    const std::int64_t w_columns = l.in_out ? l.outputs : l.inputs;
    OpCase plain(OpKind::linear_forward, a);
    plain.floats(l.rows, l.inputs, 1).floats(w_rows, w_columns, 2).floats(l.rows, l.outputs, 0);
    plain.expect_reference(1e-6);
    OpCase biased(OpKind::linear_forward, a);
    biased.floats(l.rows, l.inputs, 1).floats(w_rows, w_columns, 2).floats(l.rows, l.outputs, 0);
    biased.floats(l.outputs, 1, 3).expect_reference(1e-6);
    OpCase weight(OpKind::linear_backward_weight, a);
    weight.floats(l.rows, l.inputs, 1).floats(l.rows, l.outputs, 2).floats(w_rows, w_columns, 3);
    weight.expect_reference(1e-6);
    for (const bool accumulate : {false, true}) {
      a.accumulate = accumulate;
      OpCase input(OpKind::linear_backward_input, a);
      input.floats(l.rows, l.outputs, 1).floats(w_rows, w_columns, 2);
      input.floats(l.rows, l.inputs, accumulate ? 3 : 0).expect_reference(1e-6);
    }
    OpCase(OpKind::bias_backward)
        .floats(l.rows, l.outputs, 1)
        .floats(l.outputs, 1, 2)
        .expect_reference(1e-6);
  }
}

TEST(CudaRope, TableAndTurnsEqualTheReference) {
  for (const std::int64_t half : {1, 5, 32}) {
    std::vector<std::int32_t> positions{0, 1, 2, 100, 8191, 131071};
    if (half != 5) {
      positions.push_back(-1);
    }
    const auto rows = static_cast<std::int64_t>(positions.size());
    Attributes a;
    a.heads = 3;
    a.head_dim = static_cast<std::int32_t>(2 * half);
    a.scale = half == 5 ? 1.5F : 1.0F;
    std::vector<float> frequencies;
    for (std::int64_t i = 0; i < half; ++i) {
      frequencies.push_back(static_cast<float>(
          std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half))));
    }
    OpCase table(OpKind::rope_table, a);
    table.values(positions).values(frequencies).floats(rows, 2 * half, 0).expect_reference(1e-7);
    const auto angles = table.result()[2].as<float>();
    for (const OpKind kind : {OpKind::rope_forward, OpKind::rope_backward}) {
      OpCase(kind, a)
          .floats(rows, 6 * half, 9)
          .values(angles, {rows, 2 * half, 1})
          .expect_reference(2e-7);
    }
  }
}

TEST(CudaRope, RefusesAnOddHead) {
  Attributes a;
  a.heads = 1;
  a.head_dim = 5;
  DeviceTable device(1);
  std::vector<OpCase::Operand> operands;
  const Status status =
      OpCase(OpKind::rope_forward, a).floats(2, 5, 1).floats(2, 5, 2).run(device.table(), operands);
  EXPECT_EQ(status.message(), "head_dim 5: rotary positions need an even number");
}

TEST(CudaEmbedding, LookupsAndTheirGradientsEqualTheReference) {
  constexpr std::int64_t width = 37;
  const std::vector<std::int32_t> tokens{3, -1, 0, 9, 5, 3, 6};
  const auto rows = static_cast<std::int64_t>(tokens.size());
  Attributes a;
  OpCase first(OpKind::embedding_forward, a);
  first.values(tokens).floats(6, width, 1).floats(rows, width, 2).expect_reference(0);
  a.row_begin = 6;
  OpCase second(OpKind::embedding_forward, a);
  second.values(tokens).floats(4, width, 1).floats(rows, width, 2).expect_reference(0);
  OpCase(OpKind::position_forward)
      .values(tokens)
      .floats(10, width, 1)
      .floats(rows, width, 2)
      .expect_reference(1e-7);
  std::vector<std::int32_t> slots;
  for (std::int32_t row = 0; row < 150; ++row) {
    slots.push_back(row % 11 == 10 ? -1 : row * row % 7);
  }
  OpCase backward(OpKind::embedding_backward);
  backward.values(slots).floats(150, width, 3).floats(7, width, 4).expect_reference(1e-6);
  auto expected = testing::random_floats(4, 7 * width);
  const auto dy = testing::random_floats(3, 150 * width);
  for (std::size_t row = 0; row < slots.size(); ++row) {
    for (std::size_t i = 0; slots[row] >= 0 && i < width; ++i) {
      expected[static_cast<std::size_t>(slots[row]) * width + i] += dy[row * width + i];
    }
  }
  EXPECT_TRUE(testing::same_bits(backward.result()[2].as<float>(), expected)) << "rows ascending";
}

TEST(CudaEmbedding, APositionBeyondTheTableIsFoundAndNamed) {
  DeviceTable device(1);
  std::vector<OpCase::Operand> operands;
  const OpCase call = OpCase(OpKind::position_forward)
                          .values(std::vector<std::int32_t>{0, 3, 4})
                          .floats(3, 5, 1)
                          .floats(3, 5, 2);
  const Status status = call.run(device.table(), operands);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.message(), "position 3 of row 1: the table or cache has not so many rows");
  const OpCase good = OpCase(OpKind::add).floats(1, 5, 1).floats(1, 5, 2).floats(1, 5, 0);
  EXPECT_TRUE(good.run(device.table(), operands).ok()) << "a fault is told once";
}

TEST(CudaPointwise, MovesAndAdds) {
  for (const std::int64_t n : {1, 31, 4097}) {
    OpCase(OpKind::add).floats(1, n, 1).floats(1, n, 2).floats(1, n, 0).expect_reference(0);
    OpCase(OpKind::copy).floats(1, n, 1).floats(1, n, 0).expect_reference(0);
    OpCase(OpKind::fill_zero).floats(1, n, 1).expect_reference(0);
    const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n), 7);
    OpCase(OpKind::copy)
        .values(bytes)
        .values(std::vector<std::uint8_t>(bytes.size()))
        .expect_reference(0);
  }
  OpCase split(OpKind::split3);
  split.floats(5, 33, 1).floats(5, 11, 0).floats(5, 11, 0).floats(5, 11, 0).expect_reference(0);
  OpCase merge(OpKind::merge3);
  merge.floats(5, 11, 1).floats(5, 11, 2).floats(5, 11, 3).floats(5, 33, 0).expect_reference(0);
}

}  // namespace
}  // namespace parbuckle
