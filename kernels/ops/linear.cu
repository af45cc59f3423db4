#include "kernels/ops/linear.h"

#include <array>

#include "kernels/gemm/gemm_f32.h"
#include "kernels/ops/column_sums.h"

namespace parbuckle::cuda {
namespace {

Matrix<const float> matrix_in(const OpArgs& args, std::size_t index, std::int64_t columns) {
  return {.data = in<float>(args, index),
          .elements = args.operands[index].shape.elements(),
          .row_stride = columns};
}
Matrix<float> matrix_out(const OpArgs& args, std::size_t index, std::int64_t columns) {
  return {.data = out<float>(args, index),
          .elements = args.operands[index].shape.elements(),
          .row_stride = columns};
}
template <class T>
Matrix<T> transposed(Matrix<T> matrix) {
  std::swap(matrix.row_stride, matrix.column_stride);
  return matrix;
}

struct Sizes {
  std::int64_t rows, inputs, outputs;
};

/// x(R,I) and y(R,O) are the operands at these places.
Sizes sizes_of(const OpShape& op, std::size_t x, std::size_t y) {
  return {.rows = rows_of(shape_of(op, x)),
          .inputs = columns_of(shape_of(op, x)),
          .outputs = columns_of(shape_of(op, y))};
}

/// The weight as (I,O).
Matrix<const float> weight_in_out(const OpShape& op, const OpArgs& args, const Sizes& s) {
  return op.attributes.in_out ? matrix_in(args, 1, s.outputs)
                              : transposed(matrix_in(args, 1, s.inputs));
}

Result<std::int64_t> prepare_forward(const OpShape& op) {
  const Sizes s = sizes_of(op, 0, 2);
  const std::int64_t w = s.inputs * s.outputs;
  if (op.operands.size() == 4) {
    PARBUCKLE_TRY(expect_elements(op, {s.rows * s.inputs, w, s.rows * s.outputs, s.outputs}));
  } else {
    PARBUCKLE_TRY(expect_elements(op, {s.rows * s.inputs, w, s.rows * s.outputs}));
  }
  return std::int64_t{0};
}

Status run_forward(const Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op, 0, 2);
  return gemm_f32(context.queue,
                  {.m = s.rows,
                   .n = s.outputs,
                   .k = s.inputs,
                   .a = matrix_in(args, 0, s.inputs),
                   .b = weight_in_out(op, args, s),
                   .c = matrix_out(args, 2, s.outputs),
                   .bias = op.operands.size() == 4 ? in<float>(args, 3) : nullptr});
}

Result<std::int64_t> prepare_backward_input(const OpShape& op) {
  const Sizes s = sizes_of(op, 2, 0);
  PARBUCKLE_TRY(expect_elements(op, {s.rows * s.outputs, s.inputs * s.outputs, s.rows * s.inputs}));
  return std::int64_t{0};
}

Status run_backward_input(const Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op, 2, 0);
  return gemm_f32(context.queue,
                  {.m = s.rows,
                   .n = s.inputs,
                   .k = s.outputs,
                   .a = matrix_in(args, 0, s.outputs),
                   .b = transposed(weight_in_out(op, args, s)),
                   .c = matrix_out(args, 2, s.inputs),
                   .accumulate = op.attributes.accumulate});
}

Result<std::int64_t> prepare_backward_weight(const OpShape& op) {
  const Sizes s = sizes_of(op, 0, 1);
  PARBUCKLE_TRY(expect_elements(op, {s.rows * s.inputs, s.rows * s.outputs, s.inputs * s.outputs}));
  return std::int64_t{0};
}

/// dw(O,I) += dy^T x, or dw(I,O) += x^T dy.
Status run_backward_weight(const Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op, 0, 1);
  const bool in_out = op.attributes.in_out;
  const Matrix<const float> x = matrix_in(args, 0, s.inputs);
  const Matrix<const float> dy = matrix_in(args, 1, s.outputs);
  return gemm_f32(context.queue,
                  {.m = in_out ? s.inputs : s.outputs,
                   .n = in_out ? s.outputs : s.inputs,
                   .k = s.rows,
                   .a = transposed(in_out ? x : dy),
                   .b = in_out ? dy : x,
                   .c = matrix_out(args, 2, in_out ? s.outputs : s.inputs),
                   .accumulate = true});
}

struct BiasTerm {
  Global<const float> dy;
  std::int64_t width;
  SIMT_DEVICE float operator()(std::int64_t row, std::int64_t column) const {
    return dy[row * width + column];
  }
};

Result<std::int64_t> prepare_bias_backward(const OpShape& op) {
  const std::int64_t width = columns_of(shape_of(op, 0));
  PARBUCKLE_TRY(expect_elements(op, {any_size, width}));
  Pieces pieces;
  pieces.take<float>(chunks_of(rows_of(shape_of(op, 0))) * width);
  return pieces.bytes();
}

Status run_bias_backward(const Context& context, const OpShape& op, const OpArgs& args) {
  const std::int64_t width = columns_of(shape_of(op, 0));
  return add_column_sums(context,
                         BiasTerm{view_in<float>(context, args, 0), width},
                         rows_of(shape_of(op, 0)),
                         static_cast<float*>(args.workspace),
                         view_out<float>(context, args, 1),
                         width);
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

}  // namespace parbuckle::cuda
