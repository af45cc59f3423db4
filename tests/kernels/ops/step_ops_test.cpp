// From the output layer to the new weights, on the harness; AdamW and the norm also bit for bit against the CPU.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/op_table.h"
#include "tests/kernels/ops/op_case.h"

namespace parbuckle {
namespace {

using testing::OpCase;
using testing::random_floats;
using testing::touched_rows;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t width = 20;

Ids spread_targets(std::int64_t rows, std::int64_t every, std::int64_t vocabulary) {
  Ids targets(static_cast<std::size_t>(rows), -1);
  for (std::int64_t row = 0; row + 3 < rows; row += every) {
    targets[static_cast<std::size_t>(row)] = static_cast<std::int32_t>((row * 37 + 5) % vocabulary);
  }
  return targets;
}

struct Head {
  std::int64_t rows, every;
  std::vector<std::int64_t> parts;
  [[nodiscard]] std::int64_t vocabulary() const {
    std::int64_t sum = 0;
    for (const std::int64_t part : parts) {
      sum += part;
    }
    return sum;
  }
};

StepScalars scaled_step() {
  StepScalars step;
  step.loss_scale = 0.125;
  return step;
}

OpCase loss_case(const Head& c, const Ids& targets) {
  Attributes a;
  a.parts = static_cast<std::int32_t>(c.parts.size());
  OpCase call(OpKind::head_loss, a);
  call.floats(c.rows, width, 1).values(targets).structure(scaled_step());
  call.values(std::vector<double>(2, NAN)).floats(c.rows, width, 0);
  for (const std::uint64_t first : {100U, 200U}) {
    std::uint64_t seed = first;
    for (const std::int64_t part : c.parts) {
      call.floats(part, width, seed++);
    }
  }
  return call;
}

TEST(CudaHead, OnePassEqualsTheReference) {
  for (const Head& c : {Head{5, 1, {7}},
                        Head{64, 3, {50, 31}},
                        Head{70, 1, {33, 64, 3}},
                        Head{300, 2, {40}},
                        Head{16, 100, {9}}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " rows");
    loss_case(c, spread_targets(c.rows, c.every, c.vocabulary())).expect_reference(3e-6);
    loss_case(c, Ids(static_cast<std::size_t>(c.rows), -1)).expect_reference(0);
  }
}

TEST(CudaHead, TwoPassesEqualTheReference) {
  for (const Head& c : {Head{64, 3, {50, 31}}, Head{280, 1, {33, 20}}}) {
    const Ids targets = spread_targets(c.rows, c.every, c.vocabulary());
    std::vector<float> stats(static_cast<std::size_t>(c.rows * 4), NAN);
    std::vector<float> dh(static_cast<std::size_t>(c.rows * width), NAN);
    Attributes a;
    for (std::size_t part = 0; part < c.parts.size(); ++part) {
      a.first = part == 0;
      OpCase call(OpKind::head_stats, a);
      call.floats(c.rows, width, 1).values(targets).floats(c.parts[part], width, 100 + part);
      call.values(stats, {c.rows, 4, 1}).expect_reference(2e-6);
      stats = call.result()[3].as<float>();
      a.row_begin += c.parts[part];
    }
    OpCase loss(OpKind::head_stats_loss);
    loss.values(stats, {c.rows, 4, 1}).values(targets).values(std::vector<double>(2, NAN));
    loss.expect_reference(1e-12);
    a.row_begin = 0;
    for (std::size_t part = 0; part < c.parts.size(); ++part) {
      a.first = part == 0;
      OpCase call(OpKind::head_grad, a);
      call.floats(c.rows, width, 1).values(targets).structure(scaled_step());
      call.floats(c.parts[part], width, 100 + part).floats(c.parts[part], width, 200 + part);
      call.values(stats, {c.rows, 4, 1}).values(dh, {c.rows, width, 1}).expect_reference(3e-6);
      dh = call.result()[6].as<float>();
      a.row_begin += c.parts[part];
    }
  }
}

TEST(CudaHead, ATargetOutsideTheVocabularyIsRefused) {
  DeviceTable device(1);
  std::vector<OpCase::Operand> operands;
  const Status status = loss_case({3, 1, {20, 10}}, {1, 30, 31}).run(device.table(), operands);
  EXPECT_EQ(status.message(), "target 30 of row 1: the vocabulary has not so many entries");
}

TEST(CudaReduce, SumsOfSquaresEqualTheReference) {
  for (const std::int64_t n : {1, 300, 65'537, 140'000}) {
    OpCase call(OpKind::square_sum);
    call.floats(1, n, 1).values(
        std::vector<double>(static_cast<std::size_t>((n + 65'535) / 65'536), NAN));
    call.expect_reference(1e-12);
  }
  OpCase rows(OpKind::row_square_sum);
  rows.floats(6, 19, 1).values(std::vector<double>(6, NAN)).expect_reference(1e-12);
  Attributes a;
  a.row_begin = 4;
  const auto ids = touched_rows({1, 5, 9});
  OpCase gather(OpKind::gather_touched, a);
  gather.values(ids).floats(6, 19, 1).floats(3, 19, 2).expect_reference(0);
  OpCase both(OpKind::row_square_sum_touched, a);
  both.values(ids).floats(3, 19, 1).floats(3, 19, 2).values(std::vector<double>(10, -1.0));
  both.expect_reference(1e-7);  // the reference adds in double before it squares
  a.row_begin = -1;
  OpCase sparse(OpKind::row_square_sum_touched, a);
  sparse.values(ids).floats(3, 19, 1).values(std::vector<double>(10, -1.0)).expect_reference(1e-12);
}

/// Operands after the call on the CPU.
std::vector<OpCase::Operand> on_cpu(const OpCase& call) {
  const auto context = std::move(cpu::Context::create(1)).value();
  std::vector<OpCase::Operand> operands;
  const Status status = call.run(cpu::cpu_op_table(*context), operands);
  EXPECT_TRUE(status.ok()) << status.message();
  return operands;
}

void expect_bits_of_cpu(const OpCase& call) {
  const auto wanted = on_cpu(call);
  const auto found = call.result(3);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].bytes, wanted[i].bytes) << "operand " << i;
  }
}

TEST(CudaNormOfStep, HasTheBitsOfTheCpu) {
  std::vector<double> partials;
  for (int i = 0; i < 2500; ++i) {
    partials.push_back(1.0 / (1 + i) + 1e-9 * i);
  }
  for (const float max_norm : {0.0F, 0.5F, 100.0F}) {
    const StepScalars step{.learning_rate = 0.5F,
                           .beta2 = 0.95F,
                           .weight_decay = 0.1F,
                           .max_norm = max_norm,
                           .step = 7};
    OpCase norm(OpKind::global_norm);
    expect_bits_of_cpu(norm.values(partials).structure(step).structure(UpdateScalars{}));
    OpCase none(OpKind::prepare_update);
    expect_bits_of_cpu(none.structure(step).structure(UpdateScalars{}));
  }
}

UpdateScalars some_update() {
  return {.learning_rate = 1e-2F,
          .beta1 = 0.9F,
          .beta2 = 0.95F,
          .epsilon = 1e-8F,
          .weight_decay = 0.1F,
          .clip_scale = 0.7F,
          .correction1 = 0.19F,
          .correction2_sqrt = 0.31F,
          .step = 2};
}

/// A million values of every magnitude: random bit patterns that are finite, and the corners.
std::vector<float> finite_patterns(std::uint64_t seed, std::size_t count, bool positive) {
  std::vector<float> out;
  constexpr float corners[] = {0.0F,
                               std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::max(),
                               1.0F,
                               std::numeric_limits<float>::epsilon()};
  for (std::uint32_t i = 0; out.size() < count; ++i) {
    const double draw = uniform(seed, RandomPurpose::init, 0, i);
    auto bits = static_cast<std::uint32_t>(draw * 4294967296.0);
    bits &= positive ? 0x7FFFFFFFU : 0xFFFFFFFFU;
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (i % 1000 < std::size(corners)) {
      value = (i & 8U) != 0 && !positive ? -corners[i % 1000] : corners[i % 1000];
    }
    if (std::isfinite(value)) {
      out.push_back(value);
    }
  }
  return out;
}

TEST(CudaAdamw, HasTheBitsOfTheCpuForAMillionElementsOfAllMagnitudes) {
  constexpr std::size_t count = 1'000'000;
  for (const bool decay : {false, true}) {
    Attributes a;
    a.decay = decay;
    OpCase call(OpKind::adamw, a);
    call.values(finite_patterns(1, count, false)).values(finite_patterns(2, count, false));
    call.values(finite_patterns(3, count, true)).values(finite_patterns(4, count, false));
    const OpCase full = call.structure(some_update());
    const auto wanted = on_cpu(full);
    const auto found = full.result();
    for (std::size_t operand = 0; operand < 3; ++operand) {
      const auto a_values = found[operand].as<float>();
      const auto b_values = wanted[operand].as<float>();
      std::size_t different = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const bool both_nan = std::isnan(a_values[i]) && std::isnan(b_values[i]);
        if (!both_nan && std::memcmp(&a_values[i], &b_values[i], sizeof(float)) != 0) {
          ++different;
        }
      }
      EXPECT_EQ(different, 0U) << "operand " << operand;
    }
  }
}

TEST(CudaAdamw, TablesHaveTheBitsOfTheCpu) {
  for (const Ids& ids : {Ids{}, Ids{100}, Ids{3, 101, 102, 106, 500}}) {
    for (const bool dense : {true, false}) {
      Attributes a;
      a.decay = true;
      a.row_begin = 100;
      OpCase call(OpKind::adamw_table, a);
      call.floats(7, 41, 1)
          .floats(7, 41, 2, 0.1)
          .values(std::vector<float>(7 * 41, 0.01F), {7, 41, 1});
      call.floats(static_cast<std::int64_t>(ids.size()), 41, 5).values(touched_rows(ids));
      call.structure(some_update());
      if (dense) {
        call.floats(7, 41, 6);
      }
      expect_bits_of_cpu(call);
    }
  }
}

TEST(CudaAdamw, ANonFiniteGradientIsAnError) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    auto g = random_floats(2, 1000);
    g[999] = bad;
    OpCase call(OpKind::adamw);
    call.floats(1, 1000, 1).floats(1, 1000, 3).floats(1, 1000, 4).values(g);
    call.structure(some_update());
    DeviceTable device(1);
    std::vector<OpCase::Operand> operands;
    const Status status = call.run(device.table(), operands);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find("element 999"), std::string::npos);
  }
}

}  // namespace
}  // namespace parbuckle
