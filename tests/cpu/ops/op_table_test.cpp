// Both builds of the inner loops give the same bits, and a run allocates nothing.
#include "cpu/op_table.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/near.h"
#include "tests/support/op_call.h"

namespace {
std::atomic<long> allocations{0};  // NOLINT
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const data = std::malloc(bytes == 0 ? 1 : bytes)) {
    return data;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t /*bytes*/) noexcept {
  std::free(data);
}

namespace parbuckle {
namespace {

using testing::OpCall;
using testing::random_floats;
using testing::same_bits;

/// Buffers of one call, kept alive beside it.
struct Buffers {
  std::vector<std::vector<float>> floats;
  std::vector<std::int32_t> ids;
  std::vector<std::vector<double>> doubles;
  StepScalars step{.learning_rate = 0.01F, .max_norm = 1.0F, .loss_scale = 0.1, .step = 2};
  UpdateScalars update{.learning_rate = 0.01F,
                       .beta1 = 0.9F,
                       .beta2 = 0.99F,
                       .epsilon = 1e-8F,
                       .weight_decay = 0.1F,
                       .correction1 = 0.2F,
                       .correction2_sqrt = 0.2F};
  std::vector<std::int64_t> touched{3, 0, (std::int64_t{2} << 32) + 1, 5};  // ids 1, 2, 5
};

constexpr std::int64_t rows = 192;
constexpr std::int64_t width = 48;

/// How to add the operands of one kind to a call.
struct Recipe {
  OpKind kind;
  std::string operands;  // one letter per operand, see add_operand
  Activation activation = Activation::silu;
};

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all{
      {OpKind::embedding_forward, "tXX"},
      {OpKind::position_forward, "tXX"},
      {OpKind::embedding_backward, "tXX"},
      {OpKind::rope_table, "tfr"},
      {OpKind::rope_forward, "Xr"},
      {OpKind::rope_backward, "Xr"},
      {OpKind::linear_forward, "XwX"},
      {OpKind::linear_backward_input, "XwX"},
      {OpKind::linear_backward_weight, "XXw"},
      {OpKind::bias_backward, "Xv"},
      {OpKind::rms_norm_forward, "XvXR"},
      {OpKind::rms_norm_backward, "XvRXXv"},
      {OpKind::layer_norm_forward, "XvvXRR"},
      {OpKind::layer_norm_backward, "XvRRXXvv"},
      {OpKind::attention_forward, "XkksXh"},
      {OpKind::attention_backward, "XkksXhXXkk"},
      {OpKind::attention_cached, "XkktkkX"},
      {OpKind::activation_forward, "XX", Activation::silu},
      {OpKind::activation_forward, "XX", Activation::gelu_exact},
      {OpKind::activation_backward, "XXX", Activation::gelu_exact},
      {OpKind::activation_backward, "XXX", Activation::relu},
      {OpKind::gated_forward, "XXX", Activation::gelu_tanh},
      {OpKind::gated_backward, "XXXXX", Activation::gelu_tanh},
      {OpKind::gated_backward, "XXXXX", Activation::silu},
      {OpKind::add, "XXX"},
      {OpKind::copy, "XX"},
      {OpKind::fill_zero, "X"},
      {OpKind::head_loss, "XtSDXXXXX"},
      {OpKind::head_stats, "XtX4"},
      {OpKind::head_stats_loss, "4tD"},
      {OpKind::head_grad, "XtSXX4X"},
      {OpKind::square_sum, "X1"},
      {OpKind::row_square_sum, "XC"},
      {OpKind::gather_touched, "TX3"},
      {OpKind::row_square_sum_touched, "T33C"},
      {OpKind::global_norm, "CSU"},
      {OpKind::prepare_update, "SU"},
      {OpKind::adamw, "XXPXU"},
      {OpKind::adamw_table, "XXP3TUX"},
      {OpKind::split3, "ZXXX"},
      {OpKind::merge3, "XXXZ"},
  };
  return all;
}

void add_float(OpCall& call, Buffers& b, std::int64_t count, std::int64_t columns) {
  b.floats.push_back(random_floats(b.floats.size() + 1, count * columns));
  call.rows(b.floats.back(), columns);
}

void add_operand(OpCall& call, Buffers& b, char letter) {
  switch (letter) {
    case 'X':  // the usual matrix
      return add_float(call, b, rows, width);
    case 'Z':  // three of them side by side
      return add_float(call, b, rows, 3 * width);
    case 'P':  // the same, positive
      add_float(call, b, rows, width);
      for (float& value : b.floats.back()) {
        value = std::abs(value);
      }
      return;
    case 'w':
      return add_float(call, b, width, width);
    case 'k':  // keys and values: two of four heads
      return add_float(call, b, rows, width / 2);
    case 'r':
      return add_float(call, b, rows, width / 4);
    case 'v':
      return add_float(call, b, width, 1);
    case 'f':
      return add_float(call, b, width / 8, 1);
    case 'R':
      return add_float(call, b, rows, 1);
    case 'h':
      return add_float(call, b, rows, 4);
    case '4':
      return add_float(call, b, rows, 4);
    case '3':
      return add_float(call, b, 3, width);
    case 't':  // tokens, positions, targets, slots
    case 's':  // segment begins
      for (std::int64_t i = 0; i < rows; ++i) {
        b.ids.push_back(static_cast<std::int32_t>(letter == 't' ? i : i < 70 ? 0 : 70));
      }
      call.with(b.ids);
      return;
    case 'D':
    case '1':
    case 'C':
      b.doubles.emplace_back(letter == 'D' ? 2 : letter == '1' ? 1 : rows, 1.0);
      call.with(b.doubles.back());
      return;
    case 'S':
      call.with_struct(b.step);
      return;
    case 'U':
      call.with_struct(b.update);
      return;
    case 'T':
      call.with_raw(b.touched.data(), {1, 1, 1}, DType::u8);
      return;
    default:
      FAIL() << "no operand '" << letter << "'";
  }
}

/// A call with fresh buffers, the same for the same recipe.
struct Prepared {
  Buffers buffers;
  OpCall call;

  explicit Prepared(const Recipe& recipe) : call(recipe.kind, attributes(recipe)) {
    buffers.floats.reserve(16);
    buffers.doubles.reserve(4);
    buffers.ids.reserve(static_cast<std::size_t>(rows));
    for (const char letter : recipe.operands) {
      add_operand(call, buffers, letter);
    }
  }

  static Attributes attributes(const Recipe& recipe) {
    Attributes a;
    a.eps = 1e-5F;
    a.scale = 0.3F;
    a.heads = 4;
    a.kv_heads = 2;
    a.head_dim = width / 4;
    a.parts = 2;
    a.activation = recipe.activation;
    a.accumulate = recipe.kind != OpKind::linear_backward_input;
    a.first = true;
    a.decay = true;
    return a;
  }
};

TEST(OpTable, HasARecipeForEveryKind) {
  std::vector<bool> seen(op_kind_count);
  for (const Recipe& recipe : recipes()) {
    seen[static_cast<std::size_t>(recipe.kind)] = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
}

std::unique_ptr<cpu::Context> context(cpu::Isa isa) {
  return std::move(cpu::Context::create({.threads = 2, .isa = isa})).value();
}

void expect_same(const Prepared& a, const Prepared& b) {
  for (std::size_t i = 0; i < a.buffers.floats.size(); ++i) {
    EXPECT_TRUE(same_bits(a.buffers.floats[i], b.buffers.floats[i])) << "float operand " << i;
  }
  for (std::size_t i = 0; i < a.buffers.doubles.size(); ++i) {
    EXPECT_TRUE(same_bits(a.buffers.doubles[i], b.buffers.doubles[i])) << "double operand " << i;
  }
}

TEST(OpTable, TwoRunsGiveTheSameBits) {
  const auto on = context(cpu::best_isa());
  for (const Recipe& recipe : recipes()) {
    SCOPED_TRACE(to_string(recipe.kind));
    Prepared first(recipe);
    Prepared second(recipe);
    ASSERT_OK(first.call.run(cpu::cpu_op_table(*on)));
    ASSERT_OK(second.call.run(cpu::cpu_op_table(*on)));
    expect_same(first, second);
  }
}

TEST(OpTable, BothInstructionSetsGiveTheSameBits) {
  if (cpu::best_isa() != cpu::Isa::avx512) {
    GTEST_SKIP() << "this processor has AVX2 only";
  }
  const auto narrow = context(cpu::Isa::avx2);
  const auto wide = context(cpu::Isa::avx512);
  for (const Recipe& recipe : recipes()) {
    SCOPED_TRACE(to_string(recipe.kind));
    Prepared first(recipe);
    Prepared second(recipe);
    ASSERT_OK(first.call.run(cpu::cpu_op_table(*narrow)));
    ASSERT_OK(second.call.run(cpu::cpu_op_table(*wide)));
    expect_same(first, second);
  }
}

/// Products of matrices in one run: oneDNN looks its operands up in a small map that it builds for each.
long products_of(OpKind kind) {
  constexpr long tiles = rows / 64;
  switch (kind) {
    case OpKind::linear_forward:
    case OpKind::linear_backward_input:
    case OpKind::linear_backward_weight:
      return 1;
    case OpKind::head_loss:
      return tiles * 2 * 3;
    case OpKind::head_stats:
      return tiles;
    case OpKind::head_grad:
      return tiles * 3;
    default:
      return 0;
  }
}

TEST(OpTable, RunAllocatesNothingOfItsOwn) {
  const auto on = context(cpu::best_isa());
  for (const Recipe& recipe : recipes()) {
    SCOPED_TRACE(to_string(recipe.kind));
    Prepared prepared(recipe);
    ASSERT_OK(prepared.call.run(cpu::cpu_op_table(*on)));
    const long before = allocations;
    const Status status = prepared.call.run_prepared(cpu::cpu_op_table(*on));
    const long after = allocations;
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_LE(after - before, 8 * products_of(recipe.kind));
  }
}

// B61: 14,200 tokens times 151,936 entries are more than 2^31 elements.
TEST(OpTable, SizesBeyond32BitsAreComputedIn64) {
  const auto on = context(cpu::best_isa());
  const OpTable table = cpu::cpu_op_table(*on);
  const Shape large{14'200, 151'936, 1};
  const std::int64_t wrapped = large.elements() % (std::int64_t{1} << 31);
  const OpShape good{.kind = OpKind::add, .operands = {large, large, large}};
  EXPECT_TRUE(table.prepare(table.state, good).ok());
  const OpShape bad{.kind = OpKind::add, .operands = {large, large, {wrapped, 1, 1}}};
  EXPECT_FALSE(table.prepare(table.state, bad).ok());

  OpShape norm{.kind = OpKind::rms_norm_backward};
  norm.operands = {large, {151'936, 1, 1}, {14'200, 1, 1}, large, large, {151'936, 1, 1}};
  const auto bytes = table.prepare(table.state, norm);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, std::int64_t{4} * 222 * 151'936);  // 222 chunks of 64 rows

  Attributes a;
  a.heads = 64;
  a.kv_heads = 8;
  a.head_dim = 128;
  constexpr std::int64_t tokens = std::int64_t{1} << 20;
  const Shape q{tokens, 64 * 128, 1};
  const Shape kv{tokens, 8 * 128, 1};
  const Shape lse{tokens, 64, 1};
  OpShape attention{.kind = OpKind::attention_backward, .attributes = a};
  attention.operands = {q, kv, kv, {tokens, 1, 1}, q, lse, q, q, kv, kv};
  const auto workspace = table.prepare(table.state, attention);
  ASSERT_TRUE(workspace.ok());
  EXPECT_GT(*workspace, 2 * q.elements() * 4 + 2 * kv.elements() * 4);
}

}  // namespace
}  // namespace parbuckle
