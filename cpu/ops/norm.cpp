#include "cpu/ops/norm.h"

#include <algorithm>
#include <array>

namespace parbuckle::cpu {
namespace {

// Rows whose weight gradients are summed from zero; the sums of the chunks are then added up in order.
constexpr std::int64_t chunk_rows = 64;

/// Shapes of one norm: rows of `width`, whatever the dimensions that the rows came in.
struct Sizes {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  [[nodiscard]] std::int64_t elements() const { return rows * width; }
  [[nodiscard]] std::int64_t chunks() const { return (rows + chunk_rows - 1) / chunk_rows; }
};

Sizes sizes_of(const OpShape& op) {
  const std::int64_t width = shape_of(op, 1).elements();
  return {.rows = width == 0 ? 0 : shape_of(op, 0).elements() / width, .width = width};
}

Result<std::int64_t> prepare_rms_forward(Context& /*context*/, const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(expect_elements(op, {s.elements(), s.width, s.elements(), s.rows}));
  return std::int64_t{0};
}

Result<std::int64_t> prepare_layer_forward(Context& /*context*/, const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(
      expect_elements(op, {s.elements(), s.width, s.width, s.elements(), s.rows, s.rows}));
  return std::int64_t{0};
}

using ForwardKernel = void (*)(const NormForward&);

void forward(Context& context, const Sizes& s, const NormForward& whole, ForwardKernel kernel) {
  parallel_ranges(context.team(), s.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    NormForward part = whole;
    part.x += begin * s.width;
    part.y += begin * s.width;
    part.mean = whole.mean == nullptr ? nullptr : whole.mean + begin;
    part.rstd += begin;
    part.rows = end - begin;
    kernel(part);
  });
}

Status run_rms_forward(Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  forward(context,
          s,
          {.x = in<float>(args, 0),
           .w = in<float>(args, 1),
           .y = out<float>(args, 2),
           .rstd = out<float>(args, 3),
           .width = s.width,
           .eps = op.attributes.eps},
          context.kernels().rms_norm_forward);
  return {};
}

Status run_layer_forward(Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  forward(context,
          s,
          {.x = in<float>(args, 0),
           .w = in<float>(args, 1),
           .b = in<float>(args, 2),
           .y = out<float>(args, 3),
           .mean = out<float>(args, 4),
           .rstd = out<float>(args, 5),
           .width = s.width,
           .eps = op.attributes.eps},
          context.kernels().layer_norm_forward);
  return {};
}

/// Per chunk of rows: dw, and db in layer_norm.
Result<std::int64_t> partial_sums(const Sizes& s, std::int64_t vectors) {
  Pieces pieces;
  pieces.take<float>(s.chunks() * vectors * s.width);
  return pieces.bytes();
}

Result<std::int64_t> prepare_rms_backward(Context& /*context*/, const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(
      expect_elements(op, {s.elements(), s.width, s.rows, s.elements(), s.elements(), s.width}));
  return partial_sums(s, 1);
}

Result<std::int64_t> prepare_layer_backward(Context& /*context*/, const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(expect_elements(
      op, {s.elements(), s.width, s.rows, s.rows, s.elements(), s.elements(), s.width, s.width}));
  return partial_sums(s, 2);
}

/// `whole` names the outputs; its dw and db receive the chunks' sums in ascending order.
void backward(Context& context,
              const NormBackward& whole,
              float* partials,
              void (*kernel)(const NormBackward&)) {
  const Sizes s{.rows = whole.rows, .width = whole.width};
  const bool centred = whole.db != nullptr;
  float* const bias_partials = partials + s.chunks() * s.width;
  parallel_for(context.team(), s.chunks(), [&](std::int64_t chunk, int /*thread*/) {
    const std::int64_t begin = chunk * chunk_rows;
    NormBackward part = whole;
    part.x += begin * s.width;
    part.dy += begin * s.width;
    part.dx += begin * s.width;
    part.rstd += begin;
    part.rows = std::min(chunk_rows, s.rows - begin);
    part.dw = partials + chunk * s.width;
    std::fill_n(part.dw, s.width, 0.0F);
    if (centred) {
      part.mean += begin;
      part.db = bias_partials + chunk * s.width;
      std::fill_n(part.db, s.width, 0.0F);
    }
    kernel(part);
  });
  const auto add = context.kernels().add;
  parallel_ranges(context.team(), s.width, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = 0; chunk < s.chunks(); ++chunk) {
      const std::int64_t at = chunk * s.width + begin;
      add(whole.dw + begin, partials + at, whole.dw + begin, end - begin);
      if (centred) {
        add(whole.db + begin, bias_partials + at, whole.db + begin, end - begin);
      }
    }
  });
}

Status run_rms_backward(Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  backward(context,
           {.x = in<float>(args, 0),
            .w = in<float>(args, 1),
            .rstd = in<float>(args, 2),
            .dy = in<float>(args, 3),
            .dx = out<float>(args, 4),
            .dw = out<float>(args, 5),
            .rows = s.rows,
            .width = s.width,
            .accumulate = op.attributes.accumulate},
           Pieces(args.workspace).take<float>(s.chunks() * s.width),
           context.kernels().rms_norm_backward);
  return {};
}

Status run_layer_backward(Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  backward(context,
           {.x = in<float>(args, 0),
            .w = in<float>(args, 1),
            .mean = in<float>(args, 2),
            .rstd = in<float>(args, 3),
            .dy = in<float>(args, 4),
            .dx = out<float>(args, 5),
            .dw = out<float>(args, 6),
            .db = out<float>(args, 7),
            .rows = s.rows,
            .width = s.width,
            .accumulate = op.attributes.accumulate},
           Pieces(args.workspace).take<float>(s.chunks() * 2 * s.width),
           context.kernels().layer_norm_backward);
  return {};
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

}  // namespace parbuckle::cpu
