#include "cpu/ops/rope.h"

#include <array>
#include <cmath>

namespace parbuckle::cpu {
namespace {

Result<std::int64_t> prepare_table(Context& /*context*/, const OpShape& op) {
  const std::int64_t rows = shape_of(op, 0).elements();
  const std::int64_t half = shape_of(op, 1).elements();
  PARBUCKLE_TRY(expect_elements(op, {rows, half, rows * 2 * half}));
  return std::int64_t{0};
}

/// Angles in double: positions of 10^5 times a frequency near 1 would lose the angle's low bits in float.
Status run_table(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const positions = in<std::int32_t>(args, 0);
  const auto* const frequencies = in<float>(args, 1);
  auto* const table = out<float>(args, 2);
  const std::int64_t half = shape_of(op, 1).elements();
  const double scale = op.attributes.scale == 0 ? 1 : static_cast<double>(op.attributes.scale);
  parallel_for(context.team(), shape_of(op, 0).elements(), [&](std::int64_t row, int /*thread*/) {
    float* const cosines = table + row * 2 * half;
    float* const sines = cosines + half;
    for (std::int64_t i = 0; i < half; ++i) {
      const bool padding = positions[row] < 0;
      const double angle = positions[row] * static_cast<double>(frequencies[i]);
      cosines[i] = padding ? 1.0F : static_cast<float>(std::cos(angle) * scale);
      sines[i] = padding ? 0.0F : static_cast<float>(std::sin(angle) * scale);
    }
  });
  return {};
}

Result<std::int64_t> prepare_rotation(Context& /*context*/, const OpShape& op) {
  const Attributes& a = op.attributes;
  const std::int64_t rows = rows_of(shape_of(op, 1));
  if (a.head_dim < 2 || a.head_dim % 2 != 0) {
    return unsupported("head_dim " + std::to_string(a.head_dim) +
                       ": rotary positions need an even number");
  }
  PARBUCKLE_TRY(expect_elements(
      op, {rows * a.heads * std::int64_t{a.head_dim}, rows * std::int64_t{a.head_dim}}));
  return std::int64_t{0};
}

void rotate(Context& context, const OpShape& op, const OpArgs& args, float sign) {
  auto* const x = out<float>(args, 0);
  const auto* const table = in<float>(args, 1);
  const std::int64_t heads = op.attributes.heads;
  const std::int64_t depth = op.attributes.head_dim;
  parallel_for(context.team(), rows_of(shape_of(op, 1)), [&](std::int64_t row, int /*thread*/) {
    context.kernels().rope(x + row * heads * depth, table + row * depth, heads, depth, sign);
  });
}

Status run_forward(Context& context, const OpShape& op, const OpArgs& args) {
  rotate(context, op, args, 1.0F);
  return {};
}

Status run_backward(Context& context, const OpShape& op, const OpArgs& args) {
  rotate(context, op, args, -1.0F);
  return {};
}

constexpr std::array entries{OpEntry{OpKind::rope_table, prepare_table, run_table},
                             OpEntry{OpKind::rope_forward, prepare_rotation, run_forward},
                             OpEntry{OpKind::rope_backward, prepare_rotation, run_backward}};

}  // namespace

std::span<const OpEntry> rope_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
