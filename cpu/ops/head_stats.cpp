#include "cpu/ops/head_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cpu/ops/head_tiles.h"

namespace parbuckle::cpu {
namespace {

/// One row of stats: what is known of a row's softmax after the parts seen so far.
struct RowStats {
  float most;    // largest logit
  float total;   // sum of e^(logit - most)
  float wanted;  // logit of the target
  float unused;
};

constexpr std::int64_t stats_width = 4;

HeadSizes sizes_of(const OpShape& op, std::size_t part) {
  return {.rows = rows_of(shape_of(op, 0)),
          .width = columns_of(shape_of(op, 0)),
          .vocabulary = rows_of(shape_of(op, part))};
}

/// A target may lie in another part; the one-pass form and the loader check the upper end.
constexpr std::int64_t any_target = std::numeric_limits<std::int32_t>::max();

Result<std::int64_t> count_targets(const OpArgs& args, const HeadSizes& s, const HeadWorkspace& w) {
  return collect_targets(
      {in<std::int32_t>(args, 1), static_cast<std::size_t>(s.rows)}, any_target, w.targeted);
}

Result<std::int64_t> prepare_stats(Context& context, const OpShape& op) {
  const HeadSizes s = sizes_of(op, 2);
  PARBUCKLE_TRY(expect_elements(
      op, {s.rows * s.width, s.rows, s.vocabulary * s.width, s.rows * stats_width}));
  std::int64_t matmul_bytes = 0;
  PARBUCKLE_TRY(prepare_head_part(context, s, s.vocabulary, false, matmul_bytes));
  Pieces pieces;
  carve_head(pieces, s, matmul_bytes);
  return pieces.bytes();
}

/// Adds a part's logits to a row's stats.
void add_part(const Kernels& kernels,
              const float* logits,
              std::int64_t size,
              std::int64_t target,
              RowStats& stats) {
  const float most = std::max(stats.most, kernels.largest(logits, size));
  const float before = stats.most;
  const float fade = kernels.sum_of_exponentials(&before, 1, most);
  stats.total = stats.total * fade + kernels.sum_of_exponentials(logits, size, most);
  stats.most = most;
  if (target >= 0 && target < size) {
    stats.wanted = logits[target];
  }
}

Status run_stats(Context& context, const OpShape& op, const OpArgs& args) {
  const HeadSizes s = sizes_of(op, 2);
  Pieces pieces(args.workspace);
  const HeadWorkspace w = carve_head(pieces, s, 0);
  const auto* const targets = in<std::int32_t>(args, 1);
  auto* const stats = out<RowStats>(args, 3);
  if (op.attributes.first) {
    std::fill_n(stats, s.rows, RowStats{-std::numeric_limits<float>::infinity(), 0, 0, 0});
  }
  PARBUCKLE_ASSIGN(const std::int64_t count, count_targets(args, s, w));
  const HeadPart part{.table = in<float>(args, 2), .logits = w.logits, .size = s.vocabulary};
  return each_tile(s, w, count, [&](const HeadTile& tile) -> Status {
    gather(context, tile, s.width, in<float>(args, 0), w.h);
    PARBUCKLE_TRY(part_logits(context, s.width, w, part, tile.height));
    parallel_for(context.team(), tile.count(), [&](std::int64_t i, int /*thread*/) {
      const std::int64_t row = tile.rows[static_cast<std::size_t>(i)];
      add_part(context.kernels(),
               w.logits + i * s.vocabulary,
               s.vocabulary,
               targets[row] - op.attributes.row_begin,
               stats[row]);
    });
    return {};
  });
}

Result<std::int64_t> prepare_stats_loss(Context& /*context*/, const OpShape& op) {
  const std::int64_t rows = rows_of(shape_of(op, 0));
  PARBUCKLE_TRY(expect_elements(op, {rows * stats_width, rows, 2}));
  return std::int64_t{0};
}

Status run_stats_loss(Context& /*context*/, const OpShape& op, const OpArgs& args) {
  const auto* const stats = in<RowStats>(args, 0);
  const auto* const targets = in<std::int32_t>(args, 1);
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < rows_of(shape_of(op, 0)); ++row) {
    if (targets[row] >= 0) {
      const RowStats& r = stats[row];
      sum += std::log(static_cast<double>(r.total)) +
             (static_cast<double>(r.most) - static_cast<double>(r.wanted));
      ++count;
    }
  }
  auto* const loss = out<double>(args, 2);
  loss[0] = sum;
  loss[1] = static_cast<double>(count);
  return {};
}

Result<std::int64_t> prepare_grad(Context& context, const OpShape& op) {
  const HeadSizes s = sizes_of(op, 3);
  const std::int64_t table = s.vocabulary * s.width;
  const std::int64_t h = s.rows * s.width;
  PARBUCKLE_TRY(expect_elements(op, {h, s.rows, any_size, table, table, s.rows * stats_width, h}));
  std::int64_t matmul_bytes = 0;
  PARBUCKLE_TRY(prepare_head_part(context, s, s.vocabulary, true, matmul_bytes));
  Pieces pieces;
  carve_head(pieces, s, matmul_bytes);
  return pieces.bytes();
}

/// Logits of a tile become gradients of the loss; rows that it lacks become 0.
void soften(const Context& context,
            const OpShape& op,
            const OpArgs& args,
            const HeadWorkspace& w,
            const HeadTile& tile) {
  const auto* const targets = in<std::int32_t>(args, 1);
  const double loss_scale = in<StepScalars>(args, 2)->loss_scale;
  const auto* const stats = in<RowStats>(args, 5);
  const std::int64_t size = rows_of(shape_of(op, 3));
  parallel_for(context.team(), tile.height, [&](std::int64_t i, int /*thread*/) {
    float* const x = w.logits + i * size;
    if (i >= tile.count()) {
      std::fill_n(x, size, 0.0F);
      return;
    }
    const std::int64_t row = tile.rows[static_cast<std::size_t>(i)];
    const std::int64_t target = targets[row] - op.attributes.row_begin;
    const Kernels& kernels = context.kernels();
    kernels.exponentials(x, size, stats[row].most);
    kernels.scale(x, size, static_cast<float>(loss_scale / static_cast<double>(stats[row].total)));
    if (target >= 0 && target < size) {
      x[target] -= static_cast<float>(loss_scale);
    }
  });
}

Status run_grad(Context& context, const OpShape& op, const OpArgs& args) {
  const HeadSizes s = sizes_of(op, 3);
  Pieces pieces(args.workspace);
  const HeadWorkspace w = carve_head(pieces, s, 0);
  auto* const dh = out<float>(args, 6);
  if (op.attributes.first) {
    std::fill_n(dh, s.rows * s.width, 0.0F);
  }
  PARBUCKLE_ASSIGN(const std::int64_t count, count_targets(args, s, w));
  const HeadPart part{.table = in<float>(args, 3),
                      .gradient = out<float>(args, 4),
                      .logits = w.logits,
                      .size = s.vocabulary};
  return each_tile(s, w, count, [&](const HeadTile& tile) -> Status {
    gather(context, tile, s.width, in<float>(args, 0), w.h);
    PARBUCKLE_TRY(part_logits(context, s.width, w, part, tile.height));
    soften(context, op, args, w, tile);
    gather(context, tile, s.width, dh, w.dh);
    PARBUCKLE_TRY(part_gradients(context, s.width, w, part, tile.height));
    scatter(context, tile, s.width, w.dh, dh);
    return {};
  });
}

constexpr std::array entries{OpEntry{OpKind::head_stats, prepare_stats, run_stats},
                             OpEntry{OpKind::head_stats_loss, prepare_stats_loss, run_stats_loss},
                             OpEntry{OpKind::head_grad, prepare_grad, run_grad}};

}  // namespace

std::span<const OpEntry> head_stats_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
