#include "cpu/ops/linear.h"

#include <algorithm>
#include <array>

namespace parbuckle::cpu {
namespace {

MatmulKey forward_key(const OpShape& op) {
  return {.m = rows_of(shape_of(op, 0)),
          .n = columns_of(shape_of(op, 2)),
          .k = columns_of(shape_of(op, 0)),
          .b_transposed = !op.attributes.in_out,
          .bias = op.operands.size() == 4};
}

Result<std::int64_t> prepare_forward(Context& context, const OpShape& op) {
  const MatmulKey key = forward_key(op);
  if (key.bias) {
    PARBUCKLE_TRY(expect_elements(op, {key.m * key.k, key.k * key.n, key.m * key.n, key.n}));
  } else {
    PARBUCKLE_TRY(expect_elements(op, {key.m * key.k, key.k * key.n, key.m * key.n}));
  }
  return context.matmuls().prepare(key);
}

Status run_forward(Context& context, const OpShape& op, const OpArgs& args) {
  const MatmulKey key = forward_key(op);
  return context.matmuls().run(key,
                               {.a = in<float>(args, 0),
                                .b = in<float>(args, 1),
                                .c = out<float>(args, 2),
                                .bias = key.bias ? in<float>(args, 3) : nullptr,
                                .workspace = args.workspace});
}

MatmulKey backward_input_key(const OpShape& op) {
  return {.m = rows_of(shape_of(op, 0)),
          .n = columns_of(shape_of(op, 2)),
          .k = columns_of(shape_of(op, 0)),
          .b_transposed = op.attributes.in_out,
          .accumulate = op.attributes.accumulate};
}

Result<std::int64_t> prepare_backward_input(Context& context, const OpShape& op) {
  const MatmulKey key = backward_input_key(op);
  PARBUCKLE_TRY(expect_elements(op, {key.m * key.k, key.k * key.n, key.m * key.n}));
  return context.matmuls().prepare(key);
}

Status run_backward_input(Context& context, const OpShape& op, const OpArgs& args) {
  return context.matmuls().run(backward_input_key(op),
                               {.a = in<float>(args, 0),
                                .b = in<float>(args, 1),
                                .c = out<float>(args, 2),
                                .workspace = args.workspace});
}

/// dw(O,I) += dy^T x, or dw(I,O) += x^T dy.
MatmulKey backward_weight_key(const OpShape& op) {
  const std::int64_t inputs = columns_of(shape_of(op, 0));
  const std::int64_t outputs = columns_of(shape_of(op, 1));
  return {.m = op.attributes.in_out ? inputs : outputs,
          .n = op.attributes.in_out ? outputs : inputs,
          .k = rows_of(shape_of(op, 0)),
          .a_transposed = true,
          .accumulate = true};
}

Result<std::int64_t> prepare_backward_weight(Context& context, const OpShape& op) {
  const MatmulKey key = backward_weight_key(op);
  PARBUCKLE_TRY(
      expect_elements(op, {any_size, key.k * columns_of(shape_of(op, 1)), key.m * key.n}));
  return context.matmuls().prepare(key);
}

Status run_backward_weight(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const x = in<float>(args, 0);
  const auto* const dy = in<float>(args, 1);
  const bool in_out = op.attributes.in_out;
  return context.matmuls().run(backward_weight_key(op),
                               {.a = in_out ? x : dy,
                                .b = in_out ? dy : x,
                                .c = out<float>(args, 2),
                                .workspace = args.workspace});
}

constexpr std::int64_t bias_rows = 64;      // per chunk of the column sums
constexpr std::int64_t bias_columns = 256;  // per work item

Result<std::int64_t> prepare_bias_backward(Context& /*context*/, const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, columns_of(shape_of(op, 0))}));
  return std::int64_t{0};
}

/// Each chunk of rows is summed from zero and then added to db, chunks in order.
Status run_bias_backward(Context& context, const OpShape& op, const OpArgs& args) {
  const std::int64_t rows = rows_of(shape_of(op, 0));
  const std::int64_t columns = columns_of(shape_of(op, 0));
  const auto* const dy = in<float>(args, 0);
  auto* const db = out<float>(args, 1);
  const auto add = context.kernels().add;
  const std::int64_t items = (columns + bias_columns - 1) / bias_columns;
  parallel_for(context.team(), items, [&](std::int64_t item, int /*thread*/) {
    const std::int64_t first = item * bias_columns;
    const std::int64_t width = std::min(bias_columns, columns - first);
    std::array<float, bias_columns> sums;
    for (std::int64_t begin = 0; begin < rows; begin += bias_rows) {
      sums.fill(0);
      for (std::int64_t row = begin; row < std::min(begin + bias_rows, rows); ++row) {
        add(sums.data(), dy + row * columns + first, sums.data(), width);
      }
      add(db + first, sums.data(), db + first, width);
    }
  });
  return {};
}

constexpr std::array entries{
    OpEntry{OpKind::linear_forward, prepare_forward, run_forward},
    OpEntry{OpKind::linear_backward_input, prepare_backward_input, run_backward_input},
    OpEntry{OpKind::linear_backward_weight, prepare_backward_weight, run_backward_weight},
    OpEntry{OpKind::bias_backward, prepare_bias_backward, run_bias_backward}};

}  // namespace

std::span<const OpEntry> linear_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
