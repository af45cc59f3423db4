#include "cpu/ops/adamw.h"

#include <algorithm>
#include <array>
#include <atomic>

namespace parbuckle::cpu {
namespace {

constexpr std::int64_t piece = 4096;  // elements: four streams of one to two pages

Status not_finite() {
  return invalid(
      "the gradient has an entry that is not finite: a lower learning rate or clipping may help");
}

Result<std::int64_t> prepare_adamw(Context& /*context*/, const OpShape& op) {
  const std::int64_t n = shape_of(op, 0).elements();
  PARBUCKLE_TRY(expect_elements(op, {n, n, n, n, any_size}));
  return std::int64_t{0};
}

Status run_adamw(Context& context, const OpShape& op, const OpArgs& args) {
  const UpdateScalars& update = *in<UpdateScalars>(args, 4);
  std::atomic<bool> finite{true};
  parallel_ranges(
      context.team(), shape_of(op, 0).elements(), piece, [&](std::int64_t begin, std::int64_t end) {
        const bool good = context.kernels().adamw({.w = out<float>(args, 0) + begin,
                                                   .m = out<float>(args, 1) + begin,
                                                   .v = out<float>(args, 2) + begin,
                                                   .g = in<float>(args, 3) + begin,
                                                   .count = end - begin},
                                                  update,
                                                  op.attributes.decay);
        if (!good) {
          finite = false;
        }
      });
  return finite ? Status() : not_finite();
}

bool has_dense(const OpShape& op) {
  return op.operands.size() == 7;
}

Result<std::int64_t> prepare_table(Context& /*context*/, const OpShape& op) {
  const std::int64_t n = shape_of(op, 0).elements();
  if (has_dense(op)) {
    PARBUCKLE_TRY(expect_elements(op, {n, n, n, any_size, any_size, any_size, n}));
  } else {
    PARBUCKLE_TRY(expect_elements(op, {n, n, n, any_size, any_size, any_size}));
  }
  if (columns_of(shape_of(op, 3)) != columns_of(shape_of(op, 0))) {
    return internal_error("adamw_table: table and touched rows differ in width");
  }
  return std::int64_t{0};
}

/// Rows [begin, end) of a part: runs of rows that no token touched, and touched rows one by one.
struct TableUpdate {
  const Kernels& kernels;
  const UpdateScalars& update;
  AdamwRange part;  // of the whole part; count unused, g_extra the sparse rows
  std::span<const std::int32_t> ids;
  std::int64_t row_begin = 0;
  std::int64_t width = 0;
  bool decay = false;

  [[nodiscard]] bool rows(std::int64_t begin, std::int64_t end, const float* extra) const {
    const std::int64_t at = begin * width;
    return kernels.adamw({.w = part.w + at,
                          .m = part.m + at,
                          .v = part.v + at,
                          .g = part.g == nullptr ? nullptr : part.g + at,
                          .g_extra = extra,
                          .count = (end - begin) * width},
                         update,
                         decay);
  }

  [[nodiscard]] bool range(std::int64_t begin, std::int64_t end) const {
    bool finite = true;
    const auto first = static_cast<std::int32_t>(row_begin + begin);
    auto next = std::lower_bound(ids.begin(), ids.end(), first);
    for (std::int64_t row = begin; row < end;) {
      const std::int64_t touched = next == ids.end() ? end : *next - row_begin;
      if (touched > row) {
        const std::int64_t stop = std::min(touched, end);
        finite = rows(row, stop, nullptr) && finite;
        row = stop;
        continue;
      }
      finite = rows(row, row + 1, part.g_extra + (next - ids.begin()) * width) && finite;
      ++row;
      ++next;
    }
    return finite;
  }
};

Status run_table(Context& context, const OpShape& op, const OpArgs& args) {
  const TableUpdate table{.kernels = context.kernels(),
                          .update = *in<UpdateScalars>(args, 5),
                          .part = {.w = out<float>(args, 0),
                                   .m = out<float>(args, 1),
                                   .v = out<float>(args, 2),
                                   .g = has_dense(op) ? in<float>(args, 6) : nullptr,
                                   .g_extra = in<float>(args, 3)},
                          .ids = touched_ids(args, 4),
                          .row_begin = op.attributes.row_begin,
                          .width = columns_of(shape_of(op, 0)),
                          .decay = op.attributes.decay};
  std::atomic<bool> finite{true};
  parallel_ranges(
      context.team(), rows_of(shape_of(op, 0)), 1, [&](std::int64_t begin, std::int64_t end) {
        if (!table.range(begin, end)) {
          finite = false;
        }
      });
  return finite ? Status() : not_finite();
}

constexpr std::array entries{OpEntry{OpKind::adamw, prepare_adamw, run_adamw},
                             OpEntry{OpKind::adamw_table, prepare_table, run_table}};

}  // namespace

std::span<const OpEntry> adamw_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
