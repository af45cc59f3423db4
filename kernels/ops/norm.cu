#include "kernels/ops/norm.h"

#include <array>

#include "kernels/ops/column_sums.h"
#include "kernels/ops/warp.h"

namespace parbuckle::cuda {
namespace {

/// Rows of `width`, whatever the dimensions that they came in.
struct Sizes {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  [[nodiscard]] std::int64_t elements() const { return rows * width; }
};

Sizes sizes_of(const OpShape& op) {
  const std::int64_t width = shape_of(op, 1).elements();
  return {.rows = width == 0 ? 0 : shape_of(op, 0).elements() / width, .width = width};
}

/// One warp per row. `b` and `mean` are those of layer_norm.
template <bool centred>
struct Forward {
  Global<const float> x, w, b;
  Global<float> y, mean, rstd;
  std::int64_t width;
  float eps;

  SIMT_DEVICE void operator()(const Thread& t, std::int64_t row) const {
    const std::int64_t begin = row * width;
    const auto columns = static_cast<float>(width);
    float middle = 0;
    if constexpr (centred) {
      for (std::int64_t i = t.lane(); i < width; i += simt::warp_size) {
        middle += x[begin + i];
      }
      middle = warp_sum(t, middle) / columns;
    }
    float squares = 0;
    for (std::int64_t i = t.lane(); i < width; i += simt::warp_size) {
      const float away = x[begin + i] - middle;
      squares = simt::fused(away, away, squares);
    }
    const float scale = 1.0F / simt::square_root(warp_sum(t, squares) / columns + eps);
    for (std::int64_t i = t.lane(); i < width; i += simt::warp_size) {
      const float normal = (x[begin + i] - middle) * scale;
      if constexpr (centred) {
        y[begin + i] = simt::fused(normal, w[i], b[i]);
      } else {
        y[begin + i] = normal * w[i];
      }
    }
    if (t.lane() == 0) {
      rstd[row] = scale;
      if constexpr (centred) {
        mean[row] = middle;
      }
    }
  }
};

Result<std::int64_t> prepare_rms_forward(const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(expect_elements(op, {s.elements(), s.width, s.elements(), s.rows}));
  return std::int64_t{0};
}

Status run_rms_forward(const Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  return for_each_row(context,
                      s.rows,
                      Forward<false>{.x = view_in<float>(context, args, 0),
                                     .w = view_in<float>(context, args, 1),
                                     .b = {},
                                     .y = view_out<float>(context, args, 2),
                                     .mean = {},
                                     .rstd = view_out<float>(context, args, 3),
                                     .width = s.width,
                                     .eps = op.attributes.eps});
}

Result<std::int64_t> prepare_layer_forward(const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(
      expect_elements(op, {s.elements(), s.width, s.width, s.elements(), s.rows, s.rows}));
  return std::int64_t{0};
}

Status run_layer_forward(const Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  return for_each_row(context,
                      s.rows,
                      Forward<true>{.x = view_in<float>(context, args, 0),
                                    .w = view_in<float>(context, args, 1),
                                    .b = view_in<float>(context, args, 2),
                                    .y = view_out<float>(context, args, 3),
                                    .mean = view_out<float>(context, args, 4),
                                    .rstd = view_out<float>(context, args, 5),
                                    .width = s.width,
                                    .eps = op.attributes.eps});
}

/// What the backward of a row knows of the forward.
struct Normalised {
  Global<const float> x, mean, rstd;  // mean: layer_norm only
  std::int64_t width;
  template <bool centred>
  SIMT_DEVICE float at(std::int64_t row, std::int64_t column) const {
    float value = x[row * width + column];
    if constexpr (centred) {
      value -= mean[row];
    }
    return value * rstd[row];
  }
};

/// dx = rstd (g - mean(g) - n mean(g n)), g = dy w; without mean(g) for rms_norm. One warp per row.
template <bool centred>
struct BackwardInput {
  Normalised n;
  Global<const float> w, dy;
  Global<float> dx;
  bool accumulate;

  SIMT_DEVICE void operator()(const Thread& t, std::int64_t row) const {
    const std::int64_t width = n.width;
    const std::int64_t begin = row * width;
    const auto columns = static_cast<float>(width);
    float sum_g = 0;
    float sum_gn = 0;
    for (std::int64_t i = t.lane(); i < width; i += simt::warp_size) {
      const float g = dy[begin + i] * w[i];
      sum_g += g;
      sum_gn = simt::fused(g, n.at<centred>(row, i), sum_gn);
    }
    const float mean_g = centred ? warp_sum(t, sum_g) / columns : 0.0F;
    const float mean_gn = warp_sum(t, sum_gn) / columns;
    const float scale = n.rstd[row];
    for (std::int64_t i = t.lane(); i < width; i += simt::warp_size) {
      const float g = dy[begin + i] * w[i];
      const float value = scale * (g - mean_g - n.at<centred>(row, i) * mean_gn);
      dx[begin + i] = accumulate ? dx[begin + i] + value : value;
    }
  }
};

template <bool centred>
struct WeightTerm {
  Normalised n;
  Global<const float> dy;
  SIMT_DEVICE float operator()(std::int64_t row, std::int64_t column) const {
    return dy[row * n.width + column] * n.at<centred>(row, column);
  }
};

struct BiasTerm {
  Global<const float> dy;
  std::int64_t width;
  SIMT_DEVICE float operator()(std::int64_t row, std::int64_t column) const {
    return dy[row * width + column];
  }
};

std::int64_t partials_bytes(const Sizes& s) {
  Pieces pieces;
  pieces.take<float>(chunks_of(s.rows) * s.width);
  return pieces.bytes();
}

Result<std::int64_t> prepare_rms_backward(const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(
      expect_elements(op, {s.elements(), s.width, s.rows, s.elements(), s.elements(), s.width}));
  return partials_bytes(s);
}

/// Gradients of x and w: what both norms have.
template <bool centred>
Status backward(const Context& context,
                const Sizes& s,
                const BackwardInput<centred>& input,
                float* partials,
                const Global<float>& dw) {
  PARBUCKLE_TRY(add_column_sums(
      context, WeightTerm<centred>{input.n, input.dy}, s.rows, partials, dw, s.width));
  return for_each_row(context, s.rows, input);
}

Status run_rms_backward(const Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  const BackwardInput<false> input{.n = {.x = view_in<float>(context, args, 0),
                                         .mean = {},
                                         .rstd = view_in<float>(context, args, 2),
                                         .width = s.width},
                                   .w = view_in<float>(context, args, 1),
                                   .dy = view_in<float>(context, args, 3),
                                   .dx = view_out<float>(context, args, 4),
                                   .accumulate = op.attributes.accumulate};
  return backward(
      context, s, input, static_cast<float*>(args.workspace), view_out<float>(context, args, 5));
}

Result<std::int64_t> prepare_layer_backward(const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(expect_elements(
      op, {s.elements(), s.width, s.rows, s.rows, s.elements(), s.elements(), s.width, s.width}));
  return partials_bytes(s);
}

Status run_layer_backward(const Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  auto* const partials = static_cast<float*>(args.workspace);
  const BackwardInput<true> input{.n = {.x = view_in<float>(context, args, 0),
                                        .mean = view_in<float>(context, args, 2),
                                        .rstd = view_in<float>(context, args, 3),
                                        .width = s.width},
                                  .w = view_in<float>(context, args, 1),
                                  .dy = view_in<float>(context, args, 4),
                                  .dx = view_out<float>(context, args, 5),
                                  .accumulate = op.attributes.accumulate};
  PARBUCKLE_TRY(add_column_sums(context,
                                BiasTerm{input.dy, s.width},
                                s.rows,
                                partials,
                                view_out<float>(context, args, 7),
                                s.width));
  return backward(context, s, input, partials, view_out<float>(context, args, 6));
}

constexpr std::array entries{
    OpEntry{OpKind::rms_norm_forward, prepare_rms_forward, run_rms_forward},
    OpEntry{OpKind::rms_norm_backward, prepare_rms_backward, run_rms_backward},
    OpEntry{OpKind::layer_norm_forward, prepare_layer_forward, run_layer_forward},
    OpEntry{OpKind::layer_norm_backward, prepare_layer_backward, run_layer_backward}};

}  // namespace

std::span<const OpEntry> norm_ops() {
  return entries;
}

}  // namespace parbuckle::cuda
