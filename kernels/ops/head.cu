#include "kernels/ops/head.h"

#include <array>
#include <limits>

#include "kernels/ops/head_tiles.h"
#include "kernels/ops/warp.h"

namespace parbuckle::cuda {
namespace {

constexpr int row_threads = 256;  // one row of logits per block
constexpr int row_warps = row_threads / simt::warp_size;

/// One row of logits, and what to know of its target.
struct LogitRows {
  TargetedRows rows;
  Global<const std::int32_t> targets;
  Global<float> logits;  // (tile, size)
  std::int64_t first;    // place of the tile's first row
  std::int64_t size;
  std::int64_t row_begin;  // vocabulary entry of column 0

  SIMT_DEVICE float largest(const Thread& t, const Shared<float>& slots) const {
    float most = -simt::infinity;
    for (std::int64_t i = t.index(); i < size; i += row_threads) {
      most = simt::larger(most, static_cast<float>(logits[t.block() * size + i]));
    }
    return block_max<row_threads>(t, slots, most);
  }
  SIMT_DEVICE float exponentials(const Thread& t, const Shared<float>& slots, float most) const {
    float sum = 0;
    for (std::int64_t i = t.index(); i < size; i += row_threads) {
      sum += simt::exponential(logits[t.block() * size + i] - most);
    }
    return block_sum<row_threads>(t, slots, sum);
  }
  /// logits = e^(logits - most) factor, minus `at_target` at the target.
  SIMT_DEVICE void soften(
      const Thread& t, std::int64_t column, float most, float factor, float at_target) const {
    for (std::int64_t i = t.index(); i < size; i += row_threads) {
      const std::int64_t at = t.block() * size + i;
      const float value = simt::exponential(logits[at] - most) * factor;
      logits[at] = i == column ? value - at_target : value;
    }
  }
  SIMT_DEVICE void clear(const Thread& t) const {
    for (std::int64_t i = t.index(); i < size; i += row_threads) {
      logits[t.block() * size + i] = 0.0F;
    }
  }
  /// Column of the target among these; outside [0, size) where it is in another part.
  SIMT_DEVICE std::int64_t column(std::int64_t row) const { return targets[row] - row_begin; }
  SIMT_DEVICE bool holds(std::int64_t at) const { return at >= 0 && at < size; }
};

SIMT_DEVICE double loss_of(double total, float most, float wanted) {
  return simt::logarithm(total) + (static_cast<double>(most) - static_cast<double>(wanted));
}

/// Logits of whole rows become loss_scale (softmax - [target]); rows beyond the last become 0.
struct LossKernel {
  static constexpr int threads = row_threads;
  static constexpr std::int64_t shared_bytes = 2 * row_warps * sizeof(float);
  LogitRows x;
  Global<const StepScalars> step;
  Global<double> losses;

  SIMT_DEVICE void operator()(const Thread& t) const {
    const std::int64_t place = x.first + t.block();
    const std::int64_t row = x.rows.row(place);
    if (row < 0) {
      x.clear(t);
      return;
    }
    const StepScalars scalars = step[0];
    const std::int64_t column = x.column(row);
    const float wanted = x.holds(column) ? float{x.logits[t.block() * x.size + column]} : 0.0F;
    const float most = x.largest(t, t.shared<float>(0, row_warps));
    const double total =
        x.exponentials(t, t.shared<float>(row_warps * sizeof(float), row_warps), most);
    if (t.index() == 0) {
      losses[place] = loss_of(total, most, wanted);
    }
    x.soften(t,
             column,
             most,
             static_cast<float>(scalars.loss_scale / total),
             static_cast<float>(scalars.loss_scale));
  }
};

std::size_t part_operand(std::int64_t part) {
  return static_cast<std::size_t>(5 + part);
}

HeadSizes loss_sizes(const OpShape& op) {
  HeadSizes s{.rows = rows_of(shape_of(op, 0)), .width = columns_of(shape_of(op, 0))};
  for (std::int64_t part = 0; part < op.attributes.parts; ++part) {
    s.vocabulary += rows_of(shape_of(op, part_operand(part)));
  }
  return s;
}

Result<std::int64_t> prepare_loss(const OpShape& op) {
  const std::int64_t parts = op.attributes.parts;
  if (parts < 1 || op.operands.size() != part_operand(2 * parts)) {
    return internal_error("head_loss: " + std::to_string(op.operands.size()) + " operands for " +
                          std::to_string(parts) + " parts");
  }
  const HeadSizes s = loss_sizes(op);
  for (std::int64_t part = 0; part < parts; ++part) {
    const Shape& table = shape_of(op, part_operand(part));
    if (columns_of(table) != s.width || table != shape_of(op, part_operand(parts + part))) {
      return internal_error("head_loss: part " + std::to_string(part) + ", its gradient and the " +
                            std::to_string(s.width) + " columns of h do not fit");
    }
  }
  Pieces pieces;
  carve_head(pieces, s);
  return pieces.bytes();
}

struct Zero {
  Global<float> x;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const { x[i] = 0.0F; }
};

Status zero(const Context& context, float* x, std::int64_t count) {
  return for_each(context, count, Zero{context.queue.view(x, count)});
}

/// Calls body(part) for each part of a head_loss, in order.
template <class F>
Status each_part(const OpShape& op, const OpArgs& args, const F& body) {
  std::int64_t begin = 0;
  for (std::int64_t part = 0; part < op.attributes.parts; ++part) {
    const HeadPart p{.table = in<float>(args, part_operand(part)),
                     .gradient = out<float>(args, part_operand(op.attributes.parts + part)),
                     .begin = begin,
                     .size = rows_of(shape_of(op, part_operand(part)))};
    PARBUCKLE_TRY(body(p));
    begin += p.size;
  }
  return {};
}

LogitRows logit_rows(const Context& context,
                     const HeadSizes& s,
                     const HeadWorkspace& w,
                     const OpArgs& args,
                     std::int64_t first) {
  return {.rows = targeted_rows(context, s, w),
          .targets = view_in<std::int32_t>(context, args, 1),
          .logits = context.queue.view(w.logits, s.tile() * s.vocabulary),
          .first = first,
          .size = s.vocabulary,
          .row_begin = args.attributes->row_begin};
}

Status loss_tile(const Context& context,
                 const OpShape& op,
                 const OpArgs& args,
                 const HeadWorkspace& w,
                 std::int64_t first) {
  const HeadSizes s = loss_sizes(op);
  PARBUCKLE_TRY(gather_rows(context, s, w, first, view_in<float>(context, args, 0), w.h));
  PARBUCKLE_TRY(
      each_part(op, args, [&](const HeadPart& part) { return part_logits(context, s, w, part); }));
  LogitRows rows = logit_rows(context, s, w, args, first);
  rows.row_begin = 0;
  PARBUCKLE_TRY(simt::launch(context.queue,
                             {.x = s.tile(), .shared_bytes = LossKernel::shared_bytes},
                             LossKernel{.x = rows,
                                        .step = view_struct<StepScalars>(context, args, 2),
                                        .losses = context.queue.view(w.losses, s.rows)}));
  PARBUCKLE_TRY(zero(context, w.dh, s.tile() * s.width));
  PARBUCKLE_TRY(each_part(
      op, args, [&](const HeadPart& part) { return part_gradients(context, s, w, part); }));
  return scatter_rows(context, s, w, first, w.dh, view_out<float>(context, args, 4));
}

Status run_loss(const Context& context, const OpShape& op, const OpArgs& args) {
  const HeadSizes s = loss_sizes(op);
  Pieces pieces(args.workspace);
  const HeadWorkspace w = carve_head(pieces, s);
  PARBUCKLE_TRY(
      collect_targets(context, s, view_in<std::int32_t>(context, args, 1), s.vocabulary, w));
  PARBUCKLE_TRY(zero(context, out<float>(args, 4), s.rows * s.width));
  for (std::int64_t tile = 0; tile < s.tiles(); ++tile) {
    PARBUCKLE_TRY(loss_tile(context, op, args, w, tile * head_tile));
  }
  return write_loss(context, s, w, view_out<double>(context, args, 3));
}

// ---- the same in two passes over parts of the vocabulary

/// Columns of one row of stats.
constexpr std::int64_t stats_width = 4;
constexpr std::int64_t most_column = 0;    // largest logit of the parts so far
constexpr std::int64_t total_column = 1;   // sum of e^(logit - largest)
constexpr std::int64_t wanted_column = 2;  // logit of the target
constexpr std::int64_t any_target = std::numeric_limits<std::int32_t>::max();

HeadSizes part_sizes(const OpShape& op, std::size_t part) {
  return {.rows = rows_of(shape_of(op, 0)),
          .width = columns_of(shape_of(op, 0)),
          .vocabulary = rows_of(shape_of(op, part))};
}

struct InitialiseStats {
  Global<float> stats;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    stats[i] = i % stats_width == most_column ? -simt::infinity : 0.0F;
  }
};

/// Adds a part's logits to the stats of their rows.
struct StatsKernel {
  static constexpr int threads = row_threads;
  static constexpr std::int64_t shared_bytes = 2 * row_warps * sizeof(float);
  LogitRows x;
  Global<float> stats;

  SIMT_DEVICE void operator()(const Thread& t) const {
    const std::int64_t row = x.rows.row(x.first + t.block());
    if (row < 0) {
      return;
    }
    const std::int64_t at = row * stats_width;
    const float before = stats[at + most_column];
    const float most = simt::larger(before, x.largest(t, t.shared<float>(0, row_warps)));
    const float total =
        x.exponentials(t, t.shared<float>(row_warps * sizeof(float), row_warps), most);
    if (t.index() == 0) {
      stats[at + total_column] =
          simt::fused(stats[at + total_column], simt::exponential(before - most), total);
      stats[at + most_column] = most;
      const std::int64_t column = x.column(row);
      if (x.holds(column)) {
        stats[at + wanted_column] = x.logits[t.block() * x.size + column];
      }
    }
  }
};

Result<std::int64_t> prepare_stats(const OpShape& op) {
  const HeadSizes s = part_sizes(op, 2);
  PARBUCKLE_TRY(expect_elements(
      op, {s.rows * s.width, s.rows, s.vocabulary * s.width, s.rows * stats_width}));
  Pieces pieces;
  carve_head(pieces, s);
  return pieces.bytes();
}

Status run_stats(const Context& context, const OpShape& op, const OpArgs& args) {
  const HeadSizes s = part_sizes(op, 2);
  Pieces pieces(args.workspace);
  const HeadWorkspace w = carve_head(pieces, s);
  const auto stats = view_out<float>(context, args, 3);
  if (op.attributes.first) {
    PARBUCKLE_TRY(for_each(context, s.rows * stats_width, InitialiseStats{stats}));
  }
  PARBUCKLE_TRY(
      collect_targets(context, s, view_in<std::int32_t>(context, args, 1), any_target, w));
  for (std::int64_t tile = 0; tile < s.tiles(); ++tile) {
    const std::int64_t first = tile * head_tile;
    PARBUCKLE_TRY(gather_rows(context, s, w, first, view_in<float>(context, args, 0), w.h));
    PARBUCKLE_TRY(
        part_logits(context, s, w, HeadPart{.table = in<float>(args, 2), .size = s.vocabulary}));
    PARBUCKLE_TRY(
        simt::launch(context.queue,
                     {.x = s.tile(), .shared_bytes = StatsKernel::shared_bytes},
                     StatsKernel{.x = logit_rows(context, s, w, args, first), .stats = stats}));
  }
  return {};
}

/// One warp: each lane adds every 32nd row, then the lanes are added.
struct StatsLoss {
  static constexpr int threads = simt::warp_size;
  Global<const float> stats;
  Global<const std::int32_t> targets;
  Global<double> loss;
  std::int64_t rows;
  SIMT_DEVICE void operator()(const Thread& t) const {
    double sum = 0;
    double count = 0;
    for (std::int64_t row = t.lane(); row < rows; row += simt::warp_size) {
      if (targets[row] >= 0) {
        const std::int64_t at = row * stats_width;
        const float total = stats[at + total_column];
        sum += loss_of(total, stats[at + most_column], stats[at + wanted_column]);
        count += 1;
      }
    }
    sum = warp_sum(t, sum);
    count = warp_sum(t, count);
    if (t.lane() == 0) {
      loss[0] = sum;
      loss[1] = count;
    }
  }
};

Result<std::int64_t> prepare_stats_loss(const OpShape& op) {
  const std::int64_t rows = rows_of(shape_of(op, 0));
  PARBUCKLE_TRY(expect_elements(op, {rows * stats_width, rows, 2}));
  return std::int64_t{0};
}

Status run_stats_loss(const Context& context, const OpShape& op, const OpArgs& args) {
  return simt::launch(context.queue,
                      {},
                      StatsLoss{.stats = view_in<float>(context, args, 0),
                                .targets = view_in<std::int32_t>(context, args, 1),
                                .loss = view_out<double>(context, args, 2),
                                .rows = rows_of(shape_of(op, 0))});
}

/// Logits of a part become gradients of the loss; rows beyond the last become 0.
struct SoftenKernel {
  static constexpr int threads = row_threads;
  LogitRows x;
  Global<const StepScalars> step;
  Global<const float> stats;

  SIMT_DEVICE void operator()(const Thread& t) const {
    const std::int64_t row = x.rows.row(x.first + t.block());
    if (row < 0) {
      x.clear(t);
      return;
    }
    const StepScalars scalars = step[0];
    const float total = stats[row * stats_width + total_column];
    x.soften(t,
             x.column(row),
             stats[row * stats_width + most_column],
             static_cast<float>(scalars.loss_scale / static_cast<double>(total)),
             static_cast<float>(scalars.loss_scale));
  }
};

Result<std::int64_t> prepare_grad(const OpShape& op) {
  const HeadSizes s = part_sizes(op, 3);
  const std::int64_t table = s.vocabulary * s.width;
  const std::int64_t h = s.rows * s.width;
  PARBUCKLE_TRY(expect_elements(op, {h, s.rows, any_size, table, table, s.rows * stats_width, h}));
  Pieces pieces;
  carve_head(pieces, s);
  return pieces.bytes();
}

Status run_grad(const Context& context, const OpShape& op, const OpArgs& args) {
  const HeadSizes s = part_sizes(op, 3);
  Pieces pieces(args.workspace);
  const HeadWorkspace w = carve_head(pieces, s);
  const HeadPart part{
      .table = in<float>(args, 3), .gradient = out<float>(args, 4), .size = s.vocabulary};
  if (op.attributes.first) {
    PARBUCKLE_TRY(zero(context, out<float>(args, 6), s.rows * s.width));
  }
  PARBUCKLE_TRY(
      collect_targets(context, s, view_in<std::int32_t>(context, args, 1), any_target, w));
  for (std::int64_t tile = 0; tile < s.tiles(); ++tile) {
    const std::int64_t first = tile * head_tile;
    PARBUCKLE_TRY(gather_rows(context, s, w, first, view_in<float>(context, args, 0), w.h));
    PARBUCKLE_TRY(part_logits(context, s, w, part));
    PARBUCKLE_TRY(simt::launch(context.queue,
                               {.x = s.tile()},
                               SoftenKernel{.x = logit_rows(context, s, w, args, first),
                                            .step = view_struct<StepScalars>(context, args, 2),
                                            .stats = view_in<float>(context, args, 5)}));
    PARBUCKLE_TRY(gather_rows(context, s, w, first, view_in<float>(context, args, 6), w.dh));
    PARBUCKLE_TRY(part_gradients(context, s, w, part));
    PARBUCKLE_TRY(scatter_rows(context, s, w, first, w.dh, view_out<float>(context, args, 6)));
  }
  return {};
}

constexpr std::array entries{OpEntry{OpKind::head_loss, prepare_loss, run_loss},
                             OpEntry{OpKind::head_stats, prepare_stats, run_stats},
                             OpEntry{OpKind::head_stats_loss, prepare_stats_loss, run_stats_loss},
                             OpEntry{OpKind::head_grad, prepare_grad, run_grad}};

}  // namespace

std::span<const OpEntry> head_ops() {
  return entries;
}

}  // namespace parbuckle::cuda
