// From the gradients to the new weights: sums of squares, the global norm, AdamW.
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cpu/op_table.h"
#include "tests/support/near.h"
#include "tests/support/op_call.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

using testing::close;
using testing::OpCall;
using testing::random_floats;
using testing::same_bits;

std::unique_ptr<cpu::Context> context() {
  return std::move(cpu::Context::create(2)).value();
}

/// A `touched` operand: header and ids.
std::vector<std::uint8_t> touched(const std::vector<std::int32_t>& ids) {
  const TouchedRows header{.count = static_cast<std::int64_t>(ids.size())};
  std::vector<std::uint8_t> bytes(sizeof(header) + ids.size() * sizeof(std::int32_t));
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (!ids.empty()) {
    std::memcpy(bytes.data() + sizeof(header), ids.data(), bytes.size() - sizeof(header));
  }
  return bytes;
}

double squares(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

TEST(SquareSum, OnePartialPerChunk) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const std::int64_t n : {1, 65'536, 65'537, 200'000}) {
    auto g = random_floats(1, n);
    std::vector<double> sums(static_cast<std::size_t>((n + 65'535) / 65'536), NAN);
    ASSERT_OK(OpCall(OpKind::square_sum).with(g).with(sums).run(table));
    double total = 0;
    for (const double part : sums) {
      total += part;
    }
    EXPECT_NEAR(total, squares(g), 1e-12 * total);
    const std::vector<float> first(g.begin(), g.begin() + std::min<std::int64_t>(n, 65'536));
    EXPECT_NEAR(sums[0], squares(first), 1e-12 * sums[0]);
  }
}

TEST(SquareSum, RowsAndTouchedRows) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  constexpr std::int64_t width = 19;
  auto dense = random_floats(1, 6 * width);
  std::vector<double> sums(10, -1.0);
  std::vector<double> part(6);
  ASSERT_OK(OpCall(OpKind::row_square_sum).rows(dense, width).with(part).run(table));
  const auto row = [&](const std::vector<float>& x, std::int64_t r) {
    return std::vector<float>(x.begin() + r * width, x.begin() + (r + 1) * width);
  };
  EXPECT_NEAR(part[2], squares(row(dense, 2)), 1e-13);

  // Rows 4 .. 9 are at hand; ids 5 and 9 of the three touched ones lie among them.
  auto ids = touched({1, 5, 9});
  std::vector<float> kept(3 * width, 0.0F);
  Attributes a;
  a.row_begin = 4;
  ASSERT_OK(
      OpCall(OpKind::gather_touched, a).with(ids).rows(dense, width).rows(kept, width).run(table));
  EXPECT_TRUE(same_bits(row(kept, 0), std::vector<float>(width, 0.0F)));
  EXPECT_TRUE(same_bits(row(kept, 1), row(dense, 1)));
  EXPECT_TRUE(same_bits(row(kept, 2), row(dense, 5)));

  auto sparse = random_floats(2, 3 * width);
  ASSERT_OK(OpCall(OpKind::row_square_sum_touched, a)
                .with(ids)
                .rows(kept, width)
                .rows(sparse, width)
                .with(sums)
                .run(table));
  auto both = row(kept, 1);
  for (std::size_t i = 0; i < both.size(); ++i) {
    both[i] += sparse[width + i];
  }
  EXPECT_NEAR(sums[5], squares(both), 1e-13);
  EXPECT_NEAR(sums[1], squares(row(sparse, 0)), 1e-13);
  EXPECT_EQ(sums[0], -1.0);
  a.row_begin = -1;
  ASSERT_OK(OpCall(OpKind::row_square_sum_touched, a)
                .with(ids)
                .rows(sparse, width)
                .with(sums)
                .run(table));
  EXPECT_NEAR(sums[9], squares(row(sparse, 2)), 1e-13);
}

TEST(GlobalNorm, ClipsAndCorrectsFromTheStepAlone) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  std::vector<double> partials{9.0, 16.0};
  StepScalars step{.learning_rate = 0.5F,
                   .beta1 = 0.9F,
                   .beta2 = 0.95F,
                   .weight_decay = 0.1F,
                   .max_norm = 2.0F,
                   .step = 3};
  UpdateScalars update;
  OpCall clipped(OpKind::global_norm);
  ASSERT_OK(clipped.with(partials).with_struct(step).with_struct(update).run(table));
  EXPECT_EQ(update.norm, 5.0);
  EXPECT_FLOAT_EQ(update.clip_scale, 2.0F / 5.000001F);
  EXPECT_FLOAT_EQ(update.correction1, static_cast<float>(1 - std::pow(0.9, 3)));
  EXPECT_FLOAT_EQ(update.correction2_sqrt, static_cast<float>(std::sqrt(1 - std::pow(0.95, 3))));
  EXPECT_EQ(update.step, 3);
  step.max_norm = 10;
  ASSERT_OK(
      OpCall(OpKind::global_norm).with(partials).with_struct(step).with_struct(update).run(table));
  EXPECT_EQ(update.clip_scale, 1.0F);
  step.max_norm = 0.01F;
  ASSERT_OK(OpCall(OpKind::prepare_update).with_struct(step).with_struct(update).run(table));
  EXPECT_EQ(update.clip_scale, 1.0F);
  EXPECT_EQ(update.norm, 0.0);
}

TEST(GlobalNorm, ANonFiniteGradientShowsInTheNorm) {
  const auto on = context();
  std::vector<double> partials{9.0, INFINITY};
  StepScalars step{.max_norm = 1.0F, .step = 1};
  UpdateScalars update;
  OpCall call(OpKind::global_norm);
  ASSERT_OK(call.with(partials).with_struct(step).with_struct(update).run(cpu::cpu_op_table(*on)));
  EXPECT_FALSE(std::isfinite(update.norm));
}

// ---- AdamW against PyTorch's trajectories

/// Float64 tensors of a safetensors file.
std::vector<double> read_f64(const std::filesystem::path& file, const std::string& name) {
  std::ifstream in(file, std::ios::binary);
  std::uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof(length));
  std::string text(length, ' ');
  in.read(text.data(), static_cast<std::streamsize>(length));
  const auto entry = nlohmann::json::parse(text).at(name);
  const auto begin = entry.at("data_offsets").at(0).get<std::int64_t>();
  const auto end = entry.at("data_offsets").at(1).get<std::int64_t>();
  std::vector<double> values(static_cast<std::size_t>(end - begin) / sizeof(double));
  in.seekg(static_cast<std::streamoff>(sizeof(length) + length) + begin);
  in.read(reinterpret_cast<char*>(values.data()), end - begin);
  return values;
}

std::vector<float> narrow(const std::vector<double>& x, std::size_t begin, std::size_t count) {
  std::vector<float> out;
  for (std::size_t i = begin; i < begin + count; ++i) {
    out.push_back(static_cast<float>(x[i]));
  }
  return out;
}

TEST(Adamw, FollowsTheTrajectoriesOfPyTorch) {
  PARBUCKLE_NEEDS_SHARED("fixtures/optim/trajectories.safetensors");
  const auto file = shared_file("fixtures/optim/trajectories.safetensors");
  std::ifstream in(shared_file("fixtures/optim/trajectories.json"));
  const auto described = nlohmann::json::parse(in);
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  const auto start = read_f64(file, "start");
  const auto gradients = read_f64(file, "grads");
  for (const std::string name : {"adamw", "adamw_big_eps"}) {
    SCOPED_TRACE(name);
    const auto& args = described.at(name).at("arguments");
    const auto trajectory = read_f64(file, name);
    auto w = narrow(start, 0, start.size());
    std::vector<float> m(w.size(), 0.0F);
    std::vector<float> v(w.size(), 0.0F);
    for (std::size_t step = 0; step < 10; ++step) {
      auto g = narrow(gradients, step * w.size(), w.size());
      StepScalars scalars{.learning_rate = args.at("lr").get<float>(),
                          .beta1 = args.at("betas").at(0).get<float>(),
                          .beta2 = args.at("betas").at(1).get<float>(),
                          .epsilon = args.at("eps").get<float>(),
                          .weight_decay = args.at("weight_decay").get<float>(),
                          .step = static_cast<std::int64_t>(step) + 1};
      UpdateScalars update;
      ASSERT_OK(OpCall(OpKind::prepare_update).with_struct(scalars).with_struct(update).run(table));
      Attributes a;
      a.decay = true;
      ASSERT_OK(
          OpCall(OpKind::adamw, a).with(w).with(m).with(v).with(g).with_struct(update).run(table));
      const std::vector<double> expected(
          trajectory.begin() + static_cast<std::ptrdiff_t>(step * w.size()),
          trajectory.begin() + static_cast<std::ptrdiff_t>((step + 1) * w.size()));
      EXPECT_TRUE(close(w, expected, 5e-7)) << "step " << step;
    }
    EXPECT_TRUE(close(m, read_f64(file, name + ".exp_avg"), 5e-7));
    // 1 - 0.999F is off by 1.3e-5 of 0.001, and so is v; the correction is of the same beta, so weights are not.
    EXPECT_TRUE(close(v, read_f64(file, name + ".exp_avg_sq"), 1.5e-5));
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

// B57: decay changes decayed tensors by -rate * decay * weight, the others not at all.
TEST(Adamw, DecayIsDecoupledAndOptional) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  const auto start = random_floats(1, 1000);
  auto g = random_floats(2, 1000);
  const auto result = [&](bool decay, float weight_decay) {
    auto w = start;
    std::vector<float> m(w.size());
    std::vector<float> v(w.size());
    UpdateScalars update = some_update();
    update.weight_decay = weight_decay;
    Attributes a;
    a.decay = decay;
    OpCall call(OpKind::adamw, a);
    EXPECT_OK(call.with(w).with(m).with(v).with(g).with_struct(update).run(table));
    return w;
  };
  const auto plain = result(true, 0);
  const auto decayed = result(true, 0.1F);
  EXPECT_TRUE(same_bits(result(false, 0.1F), result(false, 0)));
  EXPECT_TRUE(same_bits(result(false, 0.1F), plain));
  for (std::size_t i = 0; i < start.size(); ++i) {
    EXPECT_NEAR(decayed[i] - plain[i], -1e-3F * start[i], 2e-7F);
  }
}

TEST(Adamw, TableUpdateEqualsTheDenseUpdateOfTheJoinedGradient) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  constexpr std::int64_t width = 21;
  constexpr std::int64_t first = 100;
  const std::vector<std::vector<std::int32_t>> id_lists{
      {}, {100}, {3, 101, 102, 106, 500}, {100, 101, 102, 103, 104, 105, 106}};
  for (const auto& list : id_lists) {
    for (const bool dense : {true, false}) {
      auto ids = touched(list);
      auto sparse = random_floats(5, static_cast<std::int64_t>(list.size()) * width + 1);
      sparse.pop_back();
      auto g = dense ? random_floats(6, 7 * width) : std::vector<float>(7 * width);
      auto joined = g;
      for (std::size_t u = 0; u < list.size(); ++u) {
        for (std::size_t i = 0; list[u] >= first && list[u] < first + 7 && i < width; ++i) {
          joined[static_cast<std::size_t>(list[u] - first) * width + i] += sparse[u * width + i];
        }
      }
      auto w = random_floats(1, 7 * width);
      auto m = random_floats(2, 7 * width, 0.1);
      std::vector<float> v(w.size(), 0.01F);
      auto w2 = w;
      auto m2 = m;
      auto v2 = v;
      UpdateScalars update = some_update();
      Attributes a;
      a.decay = true;
      a.row_begin = first;
      OpCall by_table(OpKind::adamw_table, a);
      by_table.rows(w, width).rows(m, width).rows(v, width);
      by_table.with_raw(
          sparse.data(), {static_cast<std::int64_t>(list.size()), width, 1}, DType::f32);
      by_table.with(ids).with_struct(update);
      if (dense) {
        by_table.rows(g, width);
      }
      ASSERT_OK(by_table.run(table));
      OpCall plain(OpKind::adamw, a);
      ASSERT_OK(plain.with(w2).with(m2).with(v2).with(joined).with_struct(update).run(table));
      EXPECT_TRUE(same_bits(w, w2));
      EXPECT_TRUE(same_bits(m, m2));
      EXPECT_TRUE(same_bits(v, v2));
    }
  }
}

// The documented chain of correctly rounded operations, one element at a time.
TEST(Adamw, BitsAreThoseOfTheScalarFormula) {
  const auto on = context();
  auto w = random_floats(1, 3001);
  auto m = random_floats(2, 3001, 0.1);
  auto v = random_floats(3, 3001, 0.1);
  for (float& value : v) {
    value = std::abs(value);
  }
  auto g = random_floats(4, 3001);
  auto expected = w;
  UpdateScalars u = some_update();
  const float shrink = 1.0F - u.learning_rate * u.weight_decay;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const float gradient = g[i] * u.clip_scale;
    const float new_m = std::fma(1.0F - u.beta1, gradient - m[i], m[i]);
    const float kept = (1.0F - u.beta2) * gradient;
    const float new_v = std::fma(u.beta2, v[i], kept * gradient);
    const float step = new_m / std::fma(std::sqrt(new_v), 1.0F / u.correction2_sqrt, u.epsilon);
    expected[i] = std::fma(-(u.learning_rate / u.correction1), step, w[i] * shrink);
  }
  Attributes a;
  a.decay = true;
  OpCall call(OpKind::adamw, a);
  ASSERT_OK(call.with(w).with(m).with(v).with(g).with_struct(u).run(cpu::cpu_op_table(*on)));
  EXPECT_TRUE(same_bits(w, expected));
}

TEST(Adamw, ANonFiniteGradientIsAnError) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const std::size_t where : {0U, 999U}) {
      auto w = random_floats(1, 1000);
      auto g = random_floats(2, 1000);
      g[where] = bad;
      std::vector<float> m(w.size());
      std::vector<float> v(w.size());
      UpdateScalars update = some_update();
      OpCall call(OpKind::adamw);
      const Status status = call.with(w).with(m).with(v).with(g).with_struct(update).run(table);
      EXPECT_EQ(status.code(), Code::invalid_argument);
    }
  }
}

}  // namespace
}  // namespace parbuckle
