#include "cpu/ops/embedding.h"

#include <algorithm>
#include <array>

namespace parbuckle::cpu {
namespace {

Result<std::int64_t> prepare(Context& /*context*/, const OpShape& op) {
  const std::int64_t rows = shape_of(op, 0).elements();
  PARBUCKLE_TRY(expect_elements(op, {rows, any_size, rows * columns_of(shape_of(op, 1))}));
  return std::int64_t{0};
}

Result<std::int64_t> prepare_backward(Context& /*context*/, const OpShape& op) {
  const std::int64_t rows = shape_of(op, 0).elements();
  PARBUCKLE_TRY(expect_elements(op, {rows, rows * columns_of(shape_of(op, 2)), any_size}));
  return std::int64_t{0};
}

Status run_embedding_forward(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const tokens = in<std::int32_t>(args, 0);
  const auto* const table = in<float>(args, 1);
  auto* const to = out<float>(args, 2);
  const std::int64_t part = rows_of(shape_of(op, 1));
  const std::int64_t width = columns_of(shape_of(op, 1));
  const std::int64_t first = op.attributes.row_begin;
  parallel_for(context.team(), shape_of(op, 0).elements(), [&](std::int64_t row, int /*thread*/) {
    const std::int64_t token = tokens[row];
    if (token >= first && token < first + part) {
      std::copy_n(table + (token - first) * width, width, to + row * width);
    } else if (token < 0 && first == 0) {
      std::fill_n(to + row * width, width, 0.0F);
    }
  });
  return {};
}

Status run_position_forward(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const positions = in<std::int32_t>(args, 0);
  const auto* const table = in<float>(args, 1);
  auto* const to = out<float>(args, 2);
  const std::int64_t rows = shape_of(op, 0).elements();
  const std::int64_t known = rows_of(shape_of(op, 1));
  const std::int64_t width = columns_of(shape_of(op, 1));
  if (const auto* const worst = std::max_element(positions, positions + rows);
      rows > 0 && *worst >= known) {
    return invalid("position " + std::to_string(*worst) + ": the position table has " +
                   std::to_string(known) + " rows");
  }
  parallel_for(context.team(), rows, [&](std::int64_t row, int /*thread*/) {
    if (positions[row] >= 0) {
      float* const at = to + row * width;
      context.kernels().add(at, table + positions[row] * width, at, width);
    }
  });
  return {};
}

/// Split by columns, so that rows of one slot are added in ascending order whatever the team.
Status run_embedding_backward(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const slots = in<std::int32_t>(args, 0);
  const auto* const dy = in<float>(args, 1);
  auto* const gradient = out<float>(args, 2);
  const std::int64_t rows = shape_of(op, 0).elements();
  const std::int64_t width = columns_of(shape_of(op, 2));
  parallel_ranges(context.team(), width, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < rows; ++row) {
      if (slots[row] >= 0) {
        float* const at = gradient + slots[row] * width + begin;
        context.kernels().add(at, dy + row * width + begin, at, end - begin);
      }
    }
  });
  return {};
}

constexpr std::array entries{
    OpEntry{OpKind::embedding_forward, prepare, run_embedding_forward},
    OpEntry{OpKind::position_forward, prepare, run_position_forward},
    OpEntry{OpKind::embedding_backward, prepare_backward, run_embedding_backward}};

}  // namespace

std::span<const OpEntry> embedding_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
