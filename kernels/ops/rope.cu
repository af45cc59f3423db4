#include "kernels/ops/rope.h"

#include <array>

namespace parbuckle::cuda {
namespace {

/// Angles in double: float loses the position of a token beyond a few thousand.
struct Table {
  Global<const std::int32_t> positions;
  Global<const float> frequencies;
  Global<float> table;
  std::int64_t half;
  double scale;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    const std::int64_t row = i / half;
    const std::int64_t column = i % half;
    const std::int64_t at = row * 2 * half + column;
    const std::int32_t position = positions[row];
    if (position < 0) {
      table[at] = 1.0F;
      table[at + half] = 0.0F;
      return;
    }
    const float frequency = frequencies[column];
    const double angle = static_cast<double>(position) * static_cast<double>(frequency);
    table[at] = static_cast<float>(simt::cosine(angle) * scale);
    table[at + half] = static_cast<float>(simt::sine(angle) * scale);
  }
};

Result<std::int64_t> prepare_table(const OpShape& op) {
  const std::int64_t rows = shape_of(op, 0).elements();
  const std::int64_t half = shape_of(op, 1).elements();
  PARBUCKLE_TRY(expect_elements(op, {rows, half, rows * 2 * half}));
  return std::int64_t{0};
}

Status run_table(const Context& context, const OpShape& op, const OpArgs& args) {
  const std::int64_t half = shape_of(op, 1).elements();
  const float scale = op.attributes.scale;
  return for_each(context,
                  shape_of(op, 0).elements() * half,
                  Table{.positions = view_in<std::int32_t>(context, args, 0),
                        .frequencies = view_in<float>(context, args, 1),
                        .table = view_out<float>(context, args, 2),
                        .half = half,
                        .scale = scale == 0 ? 1.0 : static_cast<double>(scale)});
}

/// One thread per pair (i, i + D/2) of a head.
struct Turn {
  Global<float> x;
  Global<const float> table;
  std::int64_t heads, half;
  float sign;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    const std::int64_t column = i % half;
    const std::int64_t row = i / half / heads;
    const std::int64_t at = i / half * 2 * half + column;
    const float cosine = table[row * 2 * half + column];
    const float sine = table[row * 2 * half + half + column] * sign;
    const float low = x[at];
    const float high = x[at + half];
    x[at] = low * cosine - high * sine;
    x[at + half] = high * cosine + low * sine;
  }
};

Result<std::int64_t> prepare_turn(const OpShape& op) {
  const std::int64_t rows = rows_of(shape_of(op, 1));
  const std::int64_t depth = op.attributes.head_dim;
  if (depth < 2 || depth % 2 != 0) {
    return unsupported("head_dim " + std::to_string(depth) +
                       ": rotary positions need an even number");
  }
  PARBUCKLE_TRY(expect_elements(op, {rows * op.attributes.heads * depth, rows * depth}));
  return std::int64_t{0};
}

Status turn(const Context& context, const OpShape& op, const OpArgs& args, float sign) {
  return for_each(context,
                  shape_of(op, 0).elements() / 2,
                  Turn{.x = view_out<float>(context, args, 0),
                       .table = view_in<float>(context, args, 1),
                       .heads = op.attributes.heads,
                       .half = op.attributes.head_dim / 2,
                       .sign = sign});
}

Status run_forward(const Context& context, const OpShape& op, const OpArgs& args) {
  return turn(context, op, args, 1.0F);
}
Status run_backward(const Context& context, const OpShape& op, const OpArgs& args) {
  return turn(context, op, args, -1.0F);
}

constexpr std::array entries{OpEntry{OpKind::rope_table, prepare_table, run_table},
                             OpEntry{OpKind::rope_forward, prepare_turn, run_forward},
                             OpEntry{OpKind::rope_backward, prepare_turn, run_backward}};

}  // namespace

std::span<const OpEntry> rope_ops() {
  return entries;
}

}  // namespace parbuckle::cuda
