#include "kernels/ops/embedding.h"

#include <array>

namespace parbuckle::cuda {
namespace {

struct Lookup {
  Global<const std::int32_t> tokens;
  Global<const float> table;
  Global<float> to;
  std::int64_t row_begin, part, width;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    const std::int64_t token = tokens[i / width];
    if (token >= row_begin && token < row_begin + part) {
      to[i] = table[(token - row_begin) * width + i % width];
    } else if (token < 0 && row_begin == 0) {
      to[i] = 0.0F;
    }
  }
};

Result<std::int64_t> prepare_lookup(const OpShape& op) {
  const std::int64_t rows = shape_of(op, 0).elements();
  PARBUCKLE_TRY(expect_elements(op, {rows, any_size, rows * columns_of(shape_of(op, 1))}));
  return std::int64_t{0};
}

Status run_lookup(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each(context,
                  shape_of(op, 2).elements(),
                  Lookup{.tokens = view_in<std::int32_t>(context, args, 0),
                         .table = view_in<float>(context, args, 1),
                         .to = view_out<float>(context, args, 2),
                         .row_begin = op.attributes.row_begin,
                         .part = rows_of(shape_of(op, 1)),
                         .width = columns_of(shape_of(op, 1))});
}

struct AddPosition {
  Global<const std::int32_t> positions;
  Global<const float> table;
  Global<float> to;
  Global<std::int64_t> faults;
  std::int64_t known, width;
  SIMT_DEVICE void operator()(const Thread& t, std::int64_t i) const {
    const std::int64_t position = positions[i / width];
    if (position >= known) {
      report_fault(t, faults, DataFault::position, row_fault(i / width, position));
    } else if (position >= 0) {
      to[i] += table[position * width + i % width];
    }
  }
};

Status run_position(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each(context,
                  shape_of(op, 2).elements(),
                  AddPosition{.positions = view_in<std::int32_t>(context, args, 0),
                              .table = view_in<float>(context, args, 1),
                              .to = view_out<float>(context, args, 2),
                              .faults = view_faults(context),
                              .known = rows_of(shape_of(op, 1)),
                              .width = columns_of(shape_of(op, 1))});
}

// Rows of one slot form a chain in ascending order, so that each slot has one owner and its sum one order.
constexpr std::int32_t chain_end = -1;
constexpr std::int32_t not_first =
    -2;  // `next` of a row is kept; this marks rows that begin no chain

/// One warp per row: the row that continues its chain, and whether it begins one.
struct FindChains {
  Global<const std::int32_t> slots;
  Global<std::int32_t> next, first;
  std::int64_t rows;
  SIMT_DEVICE void operator()(const Thread& t, std::int64_t row) const {
    const std::int32_t slot = slots[row];
    const std::int64_t after = slot < 0 ? rows : search(t, slot, row + 1, rows);
    const bool begins = slot >= 0 && search(t, slot, 0, row) == row;
    if (t.lane() == 0) {
      next[row] = after < rows ? static_cast<std::int32_t>(after) : chain_end;
      first[row] = begins ? slot : not_first;
    }
  }
  /// First row of [begin, end) with this slot, or `end`.
  SIMT_DEVICE std::int64_t search(const Thread& t,
                                  std::int32_t slot,
                                  std::int64_t begin,
                                  std::int64_t end) const {
    for (std::int64_t at = begin; at < end; at += simt::warp_size) {
      const std::int64_t mine = at + t.lane();
      const bool here = mine < end && slots[mine] == slot;
      if (const int lane = t.first(here); lane < simt::warp_size) {
        return at + lane;
      }
    }
    return end;
  }
};

struct AddChains {
  Global<const std::int32_t> next, first;
  Global<const float> dy;
  Global<float> gradient;
  std::int64_t width;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    const std::int64_t row = i / width;
    const std::int64_t column = i % width;
    const std::int64_t slot = first[row];
    if (slot < 0) {
      return;
    }
    float sum = gradient[slot * width + column];
    for (std::int64_t at = row; at >= 0; at = next[at]) {
      sum += dy[at * width + column];
    }
    gradient[slot * width + column] = sum;
  }
};

Result<std::int64_t> prepare_backward(const OpShape& op) {
  const std::int64_t rows = shape_of(op, 0).elements();
  PARBUCKLE_TRY(expect_elements(op, {rows, rows * columns_of(shape_of(op, 2)), any_size}));
  Pieces pieces;
  pieces.take<std::int32_t>(rows);
  pieces.take<std::int32_t>(rows);
  return pieces.bytes();
}

Status run_backward(const Context& context, const OpShape& op, const OpArgs& args) {
  const std::int64_t rows = shape_of(op, 0).elements();
  Pieces pieces(args.workspace);
  auto* const next = pieces.take<std::int32_t>(rows);
  auto* const first = pieces.take<std::int32_t>(rows);
  const simt::Queue& queue = context.queue;
  PARBUCKLE_TRY(for_each_row(context,
                             rows,
                             FindChains{.slots = view_in<std::int32_t>(context, args, 0),
                                        .next = queue.view(next, rows),
                                        .first = queue.view(first, rows),
                                        .rows = rows}));
  return for_each(context,
                  shape_of(op, 1).elements(),
                  AddChains{.next = queue.view<const std::int32_t>(next, rows),
                            .first = queue.view<const std::int32_t>(first, rows),
                            .dy = view_in<float>(context, args, 1),
                            .gradient = view_out<float>(context, args, 2),
                            .width = columns_of(shape_of(op, 2))});
}

constexpr std::array entries{OpEntry{OpKind::embedding_forward, prepare_lookup, run_lookup},
                             OpEntry{OpKind::position_forward, prepare_lookup, run_position},
                             OpEntry{OpKind::embedding_backward, prepare_backward, run_backward}};

}  // namespace

std::span<const OpEntry> embedding_ops() {
  return entries;
}

}  // namespace parbuckle::cuda
