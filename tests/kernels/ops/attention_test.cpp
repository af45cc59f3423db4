// Attention on the harness: shapes, windows, packing and grouped heads against the reference.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/ops/op_case.h"

namespace parbuckle {
namespace {

using testing::OpCase;
using Ids = std::vector<std::int32_t>;

struct Case {
  std::int64_t rows, heads, kv_heads, depth, window;
  Ids lengths;  // of packed records; the rest is padding
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{{1, 1, 1, 8, 0, {1}},
                                     {40, 4, 2, 20, 0, {40}},
                                     {70, 3, 1, 33, 0, {20, 31, 10}},
                                     {65, 2, 2, 64, 7, {65}},
                                     {64, 2, 1, 96, 20, {3, 1, 45}},
                                     {16, 2, 2, 12, 0, {}},
                                     {33, 2, 1, 200, 0, {33}}};
  return all;
}

Attributes attributes_of(const Case& c) {
  Attributes a;
  a.heads = static_cast<std::int32_t>(c.heads);
  a.kv_heads = static_cast<std::int32_t>(c.kv_heads);
  a.head_dim = static_cast<std::int32_t>(c.depth);
  a.window = static_cast<std::int32_t>(c.window);
  a.scale = 1 / std::sqrt(static_cast<float>(c.depth));
  return a;
}

Ids begins_of(const Case& c) {
  Ids begins;
  for (const std::int32_t length : c.lengths) {
    begins.insert(
        begins.end(), static_cast<std::size_t>(length), static_cast<std::int32_t>(begins.size()));
  }
  begins.resize(static_cast<std::size_t>(c.rows), -1);
  return begins;
}

OpCase forward_of(const Case& c) {
  OpCase forward(OpKind::attention_forward, attributes_of(c));
  forward.floats(c.rows, c.heads * c.depth, 1, 2).floats(c.rows, c.kv_heads * c.depth, 2, 2);
  forward.floats(c.rows, c.kv_heads * c.depth, 3).values(begins_of(c));
  forward.floats(c.rows, c.heads * c.depth, 0).floats(c.rows, c.heads, 0);
  return forward;
}

std::string name_of(const Case& c) {
  return std::to_string(c.rows) + " rows, " + std::to_string(c.heads) + "/" +
         std::to_string(c.kv_heads) + " heads of " + std::to_string(c.depth);
}

TEST(CudaAttention, ForwardEqualsTheReference) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(name_of(c));
    forward_of(c).expect_reference(2e-6);
  }
}

TEST(CudaAttention, BackwardEqualsTheReference) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(name_of(c));
    const auto kept = forward_of(c).result();
    OpCase backward(OpKind::attention_backward, attributes_of(c));
    backward.floats(c.rows, c.heads * c.depth, 1, 2).floats(c.rows, c.kv_heads * c.depth, 2, 2);
    backward.floats(c.rows, c.kv_heads * c.depth, 3).values(begins_of(c));
    backward.values(kept[4].as<float>(), kept[4].shape);
    backward.values(kept[5].as<float>(), kept[5].shape);
    backward.floats(c.rows, c.heads * c.depth, 4).floats(c.rows, c.heads * c.depth, 0);
    backward.floats(c.rows, c.kv_heads * c.depth, 0).floats(c.rows, c.kv_heads * c.depth, 0);
    backward.expect_reference(5e-6);
  }
}

TEST(CudaAttention, DecodingWithACacheEqualsTheReference) {
  for (const std::int64_t window : {0, 5}) {
    const Case c{12, 4, 2, 20, window, {}};
    Ids positions{30, 31, 32, 33, 34, 35, 36, 37, 38, 39, -1, -1};
    OpCase cached(OpKind::attention_cached, attributes_of(c));
    cached.floats(12, 80, 1).floats(12, 40, 2).floats(12, 40, 3).values(positions);
    cached.floats(64, 40, 4).floats(64, 40, 5).floats(12, 80, 0).expect_reference(2e-6);
  }
}

// Rows of a cache that nobody wrote hold anything, and may share a tile with the ones in use.
TEST(CudaAttention, WhatTheCacheHoldsBeyondThePositionDoesNotMatter) {
  const Case c{1, 1, 1, 8, 0, {}};
  OpCase cached(OpKind::attention_cached, attributes_of(c));
  cached.floats(1, 8, 1).floats(1, 8, 2).floats(1, 8, 3).values(Ids{0});
  cached.floats(40, 8, 0).floats(40, 8, 0).floats(1, 8, 0);
  const auto operands = cached.result();
  EXPECT_TRUE(testing::same_bits(operands[6].as<float>(), testing::random_floats(3, 8)));
}

TEST(CudaAttention, RefusesAPositionBeyondTheCache) {
  const Case c{1, 1, 1, 4, 0, {}};
  OpCase cached(OpKind::attention_cached, attributes_of(c));
  cached.floats(1, 4, 1).floats(1, 4, 2).floats(1, 4, 3).values(Ids{8});
  cached.floats(8, 4, 4).floats(8, 4, 5).floats(1, 4, 0);
  DeviceTable device(1);
  std::vector<OpCase::Operand> operands;
  const Status status = cached.run(device.table(), operands);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("position 8 of row 0"), std::string::npos);
}

TEST(CudaAttention, NanIsNotHidden) {
  const Case c{40, 1, 1, 8, 0, {40}};
  OpCase forward(OpKind::attention_forward, attributes_of(c));
  auto q = testing::random_floats(1, 40 * 8);
  q[5 * 8] = NAN;
  forward.values(q, {40, 8, 1}).floats(40, 8, 2).floats(40, 8, 3).values(begins_of(c));
  forward.floats(40, 8, 0).floats(40, 1, 0);
  const auto out = forward.result()[4].as<float>();
  EXPECT_TRUE(std::isnan(out[5 * 8]));
  EXPECT_FALSE(std::isnan(out[4 * 8]));
}

}  // namespace
}  // namespace parbuckle
