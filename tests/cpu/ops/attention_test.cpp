#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/op_table.h"
#include "tests/support/float64_ops.h"
#include "tests/support/near.h"
#include "tests/support/op_call.h"

namespace parbuckle {
namespace {

using reference::AttentionShape;
using reference::Ids;
using reference::Values;
using testing::close;
using testing::OpCall;
using testing::random_floats;
using testing::same_bits;

std::unique_ptr<cpu::Context> context(int threads = 2) {
  return std::move(cpu::Context::create(threads)).value();
}

Attributes attributes_of(const AttentionShape& s) {
  Attributes a;
  a.heads = static_cast<std::int32_t>(s.heads);
  a.kv_heads = static_cast<std::int32_t>(s.kv_heads);
  a.head_dim = static_cast<std::int32_t>(s.depth);
  a.window = static_cast<std::int32_t>(s.window);
  a.scale = static_cast<float>(s.scale);
  return a;
}

/// Inputs and outputs of one attention.
struct Attention {
  AttentionShape shape;
  Ids begins;
  std::vector<float> q, k, v, dout;
  std::vector<float> out, lse, dq, dk, dv;

  Attention(const AttentionShape& s, Ids segment_begins, std::uint64_t seed)
      : shape(s), begins(std::move(segment_begins)) {
    q = random_floats(seed, s.rows * s.q_width(), 2);
    k = random_floats(seed + 1, s.rows * s.kv_width(), 2);
    v = random_floats(seed + 2, s.rows * s.kv_width());
    dout = random_floats(seed + 3, s.rows * s.q_width());
    out.assign(q.size(), NAN);
    lse.assign(static_cast<std::size_t>(s.rows * s.heads), NAN);
    dq.assign(q.size(), NAN);
    dk.assign(k.size(), NAN);
    dv.assign(v.size(), NAN);
  }

  void run(cpu::Context& on) {
    const OpTable table = cpu::cpu_op_table(on);
    OpCall forward(OpKind::attention_forward, attributes_of(shape));
    forward.rows(q, shape.q_width()).rows(k, shape.kv_width()).rows(v, shape.kv_width());
    forward.with(begins).rows(out, shape.q_width()).rows(lse, shape.heads);
    ASSERT_OK(forward.run(table));
    OpCall backward(OpKind::attention_backward, attributes_of(shape));
    backward.rows(q, shape.q_width()).rows(k, shape.kv_width()).rows(v, shape.kv_width());
    backward.with(begins).rows(out, shape.q_width()).rows(lse, shape.heads);
    backward.rows(dout, shape.q_width()).rows(dq, shape.q_width());
    backward.rows(dk, shape.kv_width()).rows(dv, shape.kv_width());
    ASSERT_OK(backward.run(table));
  }
};

/// `lengths` packed one after the other, then padding.
Ids packed(const std::vector<std::int32_t>& lengths, std::int64_t rows) {
  Ids begins;
  for (const std::int32_t length : lengths) {
    begins.insert(
        begins.end(), static_cast<std::size_t>(length), static_cast<std::int32_t>(begins.size()));
  }
  begins.resize(static_cast<std::size_t>(rows), -1);
  return begins;
}

void expect_reference(const Attention& a) {
  const Values q = reference::widen(a.q);
  const Values k = reference::widen(a.k);
  const Values v = reference::widen(a.v);
  EXPECT_TRUE(close(a.out, reference::attention_forward(a.shape, q, k, v, a.begins), 2e-6));
  for (std::int64_t head = 0; head < a.shape.heads; ++head) {
    for (std::int64_t i = 0; i < a.shape.rows; ++i) {
      double lse = 0;
      reference::probabilities(a.shape, q, k, a.begins, head, i, &lse);
      EXPECT_NEAR(a.lse[reference::at(i, a.shape.heads, head)], lse, 1e-5);
    }
  }
  const auto g =
      reference::attention_backward(a.shape, q, k, v, a.begins, reference::widen(a.dout));
  EXPECT_TRUE(close(a.dq, g.dq, 5e-6));
  EXPECT_TRUE(close(a.dk, g.dk, 5e-6));
  EXPECT_TRUE(close(a.dv, g.dv, 5e-6));
}

TEST(Attention, EqualsTheReferenceForManyShapes) {
  struct Case {
    AttentionShape shape;
    std::vector<std::int32_t> lengths;
  };
  const std::vector<Case> cases{
      {{.rows = 1, .heads = 1, .kv_heads = 1, .depth = 8, .scale = 0.35}, {1}},
      {{.rows = 64, .heads = 9, .kv_heads = 3, .depth = 64, .scale = 0.125}, {64}},
      {{.rows = 130, .heads = 4, .kv_heads = 2, .depth = 20, .scale = 0.2}, {130}},
      {{.rows = 192, .heads = 3, .kv_heads = 1, .depth = 33, .scale = 0.17}, {50, 70, 41}},
      {{.rows = 192, .heads = 2, .kv_heads = 2, .depth = 80, .scale = 0.1}, {64, 128}},
      {{.rows = 200, .heads = 2, .kv_heads = 1, .depth = 16, .window = 7, .scale = 0.25}, {200}},
      {{.rows = 256, .heads = 2, .kv_heads = 1, .depth = 96, .window = 100, .scale = 0.1},
       {30, 1, 180}},
      {{.rows = 64, .heads = 2, .kv_heads = 2, .depth = 12, .scale = 0.3}, {}},
      {{.rows = 320, .heads = 2, .kv_heads = 1, .depth = 16, .scale = 0.25}, {64, 128, 30}},
  };
  const auto on = context();
  std::uint64_t seed = 1;
  for (const Case& c : cases) {
    SCOPED_TRACE(std::to_string(c.shape.rows) + " rows, depth " + std::to_string(c.shape.depth));
    Attention a(c.shape, packed(c.lengths, c.shape.rows), seed += 10);
    a.run(*on);
    expect_reference(a);
  }
}

TEST(Attention, ReferenceGradientsEqualFiniteDifferences) {
  const AttentionShape s{
      .rows = 7, .heads = 4, .kv_heads = 2, .depth = 3, .window = 4, .scale = 0.5};
  const Ids begins = packed({3, 3}, s.rows);
  const Values q = reference::widen(random_floats(1, s.rows * s.q_width()));
  const Values k = reference::widen(random_floats(2, s.rows * s.kv_width()));
  const Values v = reference::widen(random_floats(3, s.rows * s.kv_width()));
  const Values dout = reference::widen(random_floats(4, s.rows * s.q_width()));
  const auto g = reference::attention_backward(s, q, k, v, begins, dout);
  const auto value = [&](const Values& a, const Values& b, const Values& c) {
    return reference::inner(reference::attention_forward(s, a, b, c, begins), dout);
  };
  for (std::size_t i = 0; i < q.size(); i += 3) {
    const double slope =
        reference::difference([&](const Values& x) { return value(x, k, v); }, q, i);
    EXPECT_NEAR(g.dq[i], slope, 1e-8);
  }
  for (std::size_t i = 0; i < k.size(); ++i) {
    const double by_k =
        reference::difference([&](const Values& x) { return value(q, x, v); }, k, i);
    const double by_v =
        reference::difference([&](const Values& x) { return value(q, k, x); }, v, i);
    EXPECT_NEAR(g.dk[i], by_k, 1e-8);
    EXPECT_NEAR(g.dv[i], by_v, 1e-8);
  }
}

// B24: a window of W keys, the row itself included.
TEST(Attention, WindowOfFourSeesFourKeys) {
  const AttentionShape s{
      .rows = 8, .heads = 1, .kv_heads = 1, .depth = 4, .window = 4, .scale = 0.5};
  const auto on = context();
  Attention plain(s, packed({8}, 8), 5);
  // Equal scores: each row's output is the mean of the values it sees, so the lse counts its keys.
  std::fill(plain.k.begin(), plain.k.end(), 0.0F);
  plain.run(*on);
  const std::vector<int> seen{1, 2, 3, 4, 4, 4, 4, 4};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_NEAR(std::exp(plain.lse[i]), seen[i], 1e-5);
  }
  Attention changed = plain;
  std::fill_n(changed.v.begin(), s.depth, 9.0F);  // row 0
  changed.run(*on);
  const auto row = [&](const Attention& a, std::int64_t i) {
    return std::vector<float>(a.out.begin() + i * s.depth, a.out.begin() + (i + 1) * s.depth);
  };
  EXPECT_TRUE(same_bits(row(plain, 4), row(changed, 4)));
  EXPECT_FALSE(same_bits(row(plain, 3), row(changed, 3)));
}

// B53: packed records do not see each other, to the bit, forward and backward.
TEST(Attention, PackedRecordsAreIsolated) {
  const auto on = context();
  for (const auto& [first, second] : {std::pair{3, 5}, {60, 70}, {65, 127}}) {
    const AttentionShape s{.rows = 192, .heads = 4, .kv_heads = 2, .depth = 16, .scale = 0.25};
    const Ids begins = packed({first, second}, s.rows);
    Attention a(s, begins, 11);
    Attention b(s, begins, 11);
    const Attention other(s, begins, 77);
    std::copy_n(other.q.begin(), first * s.q_width(), b.q.begin());
    std::copy_n(other.k.begin(), first * s.kv_width(), b.k.begin());
    std::copy_n(other.v.begin(), first * s.kv_width(), b.v.begin());
    std::copy_n(other.dout.begin(), first * s.q_width(), b.dout.begin());
    a.run(*on);
    b.run(*on);
    const auto tail = [&](const std::vector<float>& x, std::int64_t width) {
      return std::vector<float>(x.begin() + first * width, x.begin() + (first + second) * width);
    };
    EXPECT_TRUE(same_bits(tail(a.out, s.q_width()), tail(b.out, s.q_width())));
    EXPECT_TRUE(same_bits(tail(a.dq, s.q_width()), tail(b.dq, s.q_width())));
    EXPECT_TRUE(same_bits(tail(a.dk, s.kv_width()), tail(b.dk, s.kv_width())));
    EXPECT_TRUE(same_bits(tail(a.dv, s.kv_width()), tail(b.dv, s.kv_width())));
    EXPECT_FALSE(same_bits(a.out, b.out));
  }
}

// B55: rows without a visible key give 0 and get 0.
TEST(Attention, PaddingRowsAreZeroBothWays) {
  const AttentionShape s{.rows = 64, .heads = 2, .kv_heads = 1, .depth = 16, .scale = 0.25};
  const auto on = context();
  Attention a(s, packed({10}, s.rows), 3);
  a.run(*on);
  for (std::int64_t i = 10 * s.q_width(); i < s.rows * s.q_width(); ++i) {
    ASSERT_EQ(a.out[static_cast<std::size_t>(i)], 0.0F);
    ASSERT_EQ(a.dq[static_cast<std::size_t>(i)], 0.0F);
  }
  for (std::int64_t i = 10 * s.kv_width(); i < s.rows * s.kv_width(); ++i) {
    ASSERT_EQ(a.dk[static_cast<std::size_t>(i)], 0.0F);
    ASSERT_EQ(a.dv[static_cast<std::size_t>(i)], 0.0F);
  }
}

TEST(Attention, LargeScoresDoNotOverflowAndNanIsNotHidden) {
  const AttentionShape s{.rows = 128, .heads = 1, .kv_heads = 1, .depth = 16, .scale = 40};
  const auto on = context();
  Attention a(s, packed({128}, s.rows), 8);
  a.run(*on);
  for (const float value : a.dq) {
    ASSERT_TRUE(std::isfinite(value));
  }
  a.q[5 * 16] = NAN;
  a.run(*on);
  EXPECT_TRUE(std::isnan(a.out[5 * 16]));
}

TEST(Attention, BitsDoNotDependOnTheTeam) {
  const AttentionShape s{.rows = 192, .heads = 6, .kv_heads = 2, .depth = 24, .scale = 0.2};
  for (const auto& lengths : {std::vector<std::int32_t>{100, 80}, {64, 128}, {192}}) {
    Attention one(s, packed(lengths, s.rows), 21);
    Attention three = one;
    one.run(*context(1));
    three.run(*context(3));
    EXPECT_TRUE(same_bits(one.out, three.out));
    EXPECT_TRUE(same_bits(one.dq, three.dq));
    EXPECT_TRUE(same_bits(one.dk, three.dk));
    EXPECT_TRUE(same_bits(one.dv, three.dv));
  }
}

TEST(AttentionCached, DecodingRowByRowEqualsOnePass) {
  for (const std::int64_t window : {0, 5}) {
    const AttentionShape s{
        .rows = 40, .heads = 4, .kv_heads = 2, .depth = 12, .window = window, .scale = 0.3};
    const auto on = context();
    const OpTable table = cpu::cpu_op_table(*on);
    Attention a(s, packed({40}, s.rows), 31);
    std::vector<float> k_cache(static_cast<std::size_t>(64 * s.kv_width()), NAN);
    std::vector<float> v_cache = k_cache;
    // A prefill of 25 rows and three of padding, then one row at a time.
    for (std::int64_t row = 0; row < s.rows;) {
      const std::int64_t taken = row == 0 ? 25 : 1;
      const std::int64_t padded = row == 0 ? 28 : 1;
      const auto piece = [&](const std::vector<float>& from, std::int64_t width) {
        return std::vector<float>(from.begin() + row * width,
                                  from.begin() + (row + padded) * width);
      };
      auto q = piece(a.q, s.q_width());
      auto k = piece(a.k, s.kv_width());
      auto v = piece(a.v, s.kv_width());
      Ids positions(static_cast<std::size_t>(padded), -1);
      for (std::int64_t i = 0; i < taken; ++i) {
        positions[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(row + i);
      }
      std::vector<float> out(q.size(), NAN);
      OpCall call(OpKind::attention_cached, attributes_of(s));
      call.rows(q, s.q_width()).rows(k, s.kv_width()).rows(v, s.kv_width()).with(positions);
      call.rows(k_cache, s.kv_width()).rows(v_cache, s.kv_width()).rows(out, s.q_width());
      ASSERT_OK(call.run(table));
      std::copy_n(out.begin(), taken * s.q_width(), a.out.begin() + row * s.q_width());
      for (std::size_t i = static_cast<std::size_t>(taken * s.q_width()); i < out.size(); ++i) {
        ASSERT_EQ(out[i], 0.0F);
      }
      row += taken;
    }
    const Values expected = reference::attention_forward(
        s, reference::widen(a.q), reference::widen(a.k), reference::widen(a.v), a.begins);
    EXPECT_TRUE(close(a.out, expected, 2e-6));
  }
}

TEST(AttentionCached, RefusesAPositionBeyondTheCache) {
  const AttentionShape s{.rows = 1, .heads = 1, .kv_heads = 1, .depth = 4, .scale = 1};
  const auto on = context();
  Attention a(s, {0}, 1);
  std::vector<float> cache(8 * 4);
  Ids positions{8};
  OpCall call(OpKind::attention_cached, attributes_of(s));
  call.rows(a.q, 4).rows(a.k, 4).rows(a.v, 4).with(positions).rows(cache, 4).rows(cache, 4).rows(
      a.out, 4);
  const Status status = call.run(cpu::cpu_op_table(*on));
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("position 8"), std::string::npos);
}

}  // namespace
}  // namespace parbuckle
