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

constexpr double eps = 1e-5;

struct Rows {
  std::int64_t count, width;
};
const Rows shapes[] = {{1, 1}, {3, 16}, {65, 37}, {192, 576}, {513, 64}};

std::unique_ptr<cpu::Context> context(int threads = 2) {
  return std::move(cpu::Context::create(threads)).value();
}

/// One norm, forward then backward, with every output.
struct NormRun {
  bool centred;
  std::vector<float> x, w, b, dy;
  std::vector<float> y, mean, rstd, dx, dw, db;

  NormRun(bool layer, const Rows& s, std::uint64_t seed) : centred(layer) {
    x = random_floats(seed, s.count * s.width, 3);
    w = random_floats(seed + 1, s.width);
    b = random_floats(seed + 2, s.width);
    dy = random_floats(seed + 3, s.count * s.width);
    y.assign(x.size(), NAN);
    mean.assign(static_cast<std::size_t>(s.count), NAN);
    rstd = mean;
    dx = random_floats(seed + 4, s.count * s.width);
    dw = random_floats(seed + 5, s.width);
    db = random_floats(seed + 6, s.width);
  }

  Status run(const OpTable& table, bool accumulate) {
    const auto width = static_cast<std::int64_t>(w.size());
    Attributes a;
    a.eps = static_cast<float>(eps);
    a.accumulate = accumulate;
    OpCall forward(centred ? OpKind::layer_norm_forward : OpKind::rms_norm_forward, a);
    forward.rows(x, width).with(w);
    OpCall backward(centred ? OpKind::layer_norm_backward : OpKind::rms_norm_backward, a);
    backward.rows(x, width).with(w);
    if (centred) {
      forward.with(b).rows(y, width).with(mean).with(rstd);
      backward.with(mean).with(rstd).rows(dy, width).rows(dx, width).with(dw).with(db);
    } else {
      forward.rows(y, width).with(rstd);
      backward.with(rstd).rows(dy, width).rows(dx, width).with(dw);
    }
    PARBUCKLE_TRY(forward.run(table));
    return backward.run(table);
  }
};

TEST(Norm, EqualsTheReference) {
  const auto on = context();
  const OpTable table = cpu::cpu_op_table(*on);
  for (const bool layer : {false, true}) {
    for (const Rows& s : shapes) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(std::to_string(s.count) + "x" + std::to_string(s.width));
        NormRun run(layer, s, 40);
        const NormRun start = run;
        ASSERT_OK(run.run(table, accumulate));
        const Values x = reference::widen(run.x);
        const Values w = reference::widen(run.w);
        const auto forward =
            reference::norm_forward(x, w, layer ? reference::widen(run.b) : Values(), eps);
        EXPECT_TRUE(close(run.y, forward.y, 1e-6));
        auto g = reference::norm_backward(x, w, reference::widen(run.dy), layer, eps);
        for (std::size_t i = 0; i < g.dx.size(); ++i) {
          g.dx[i] += accumulate ? static_cast<double>(start.dx[i]) : 0;
        }
        for (std::size_t i = 0; i < g.dw.size(); ++i) {
          g.dw[i] += static_cast<double>(start.dw[i]);
          g.db[i] += static_cast<double>(start.db[i]);
        }
        EXPECT_TRUE(close(run.dx, g.dx, 2e-6));
        EXPECT_TRUE(close(run.dw, g.dw, 2e-6));
        if (layer) {
          EXPECT_TRUE(close(run.db, g.db, 2e-6));
        }
      }
    }
  }
}

TEST(Norm, ReferenceGradientsEqualFiniteDifferences) {
  const Values x = reference::widen(random_floats(1, 2 * 5, 2));
  const Values w = reference::widen(random_floats(2, 5));
  const Values b = reference::widen(random_floats(3, 5));
  const Values dy = reference::widen(random_floats(4, 2 * 5));
  for (const bool layer : {false, true}) {
    const auto g = reference::norm_backward(x, w, dy, layer, eps);
    const auto value = [&](const Values& at, const Values& weight) {
      return reference::inner(reference::norm_forward(at, weight, layer ? b : Values(), eps).y, dy);
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(
          g.dx[i], reference::difference([&](const Values& v) { return value(v, w); }, x, i), 1e-7);
    }
    for (std::size_t i = 0; i < w.size(); ++i) {
      EXPECT_NEAR(
          g.dw[i], reference::difference([&](const Values& v) { return value(x, v); }, w, i), 1e-7);
    }
  }
}

TEST(Norm, BitsDoNotDependOnTheTeam) {
  for (const bool layer : {false, true}) {
    NormRun one(layer, {300, 576}, 7);
    NormRun three = one;
    const auto first = context(1);
    const auto second = context(3);
    ASSERT_OK(one.run(cpu::cpu_op_table(*first), true));
    ASSERT_OK(three.run(cpu::cpu_op_table(*second), true));
    EXPECT_TRUE(same_bits(one.y, three.y));
    EXPECT_TRUE(same_bits(one.dx, three.dx));
    EXPECT_TRUE(same_bits(one.dw, three.dw));
    EXPECT_TRUE(same_bits(one.db, three.db));
  }
}

}  // namespace
}  // namespace parbuckle
