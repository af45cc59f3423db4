#include "cpu/ops/head_loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cpu/ops/head_tiles.h"

namespace parbuckle::cpu {
namespace {

std::int64_t parts_of(const OpShape& op) {
  return op.attributes.parts;
}
std::size_t part_operand(std::int64_t part) {
  return static_cast<std::size_t>(5 + part);
}
std::int64_t part_size(const OpShape& op, std::int64_t part) {
  return rows_of(shape_of(op, part_operand(part)));
}

HeadSizes sizes_of(const OpShape& op) {
  HeadSizes s{.rows = rows_of(shape_of(op, 0)), .width = columns_of(shape_of(op, 0))};
  for (std::int64_t part = 0; part < parts_of(op); ++part) {
    s.vocabulary += part_size(op, part);
  }
  return s;
}

Status check_parts(const OpShape& op, std::int64_t width) {
  for (std::int64_t part = 0; part < parts_of(op); ++part) {
    const Shape& table = shape_of(op, part_operand(part));
    if (columns_of(table) != width || table != shape_of(op, part_operand(parts_of(op) + part))) {
      return internal_error("head_loss: part " + std::to_string(part) + ", its gradient and the " +
                            std::to_string(width) + " columns of h do not fit");
    }
  }
  return {};
}

Result<std::int64_t> prepare(Context& context, const OpShape& op) {
  if (parts_of(op) < 1 || op.operands.size() != part_operand(2 * parts_of(op))) {
    return internal_error("head_loss: " + std::to_string(op.operands.size()) + " operands for " +
                          std::to_string(parts_of(op)) + " parts");
  }
  const HeadSizes s = sizes_of(op);
  PARBUCKLE_TRY(check_parts(op, s.width));
  std::int64_t matmul_bytes = 0;
  for (std::int64_t part = 0; part < parts_of(op); ++part) {
    PARBUCKLE_TRY(prepare_head_part(context, s, part_size(op, part), true, matmul_bytes));
  }
  Pieces pieces;
  carve_head(pieces, s, matmul_bytes);
  return pieces.bytes();
}

/// Calls body(part) for each part of a tile, in order.
template <class F>
Status each_part(const OpShape& op,
                 const OpArgs& args,
                 const HeadWorkspace& w,
                 std::int64_t height,
                 const F& body) {
  float* logits = w.logits;
  for (std::int64_t part = 0; part < parts_of(op); ++part) {
    const HeadPart p{.table = in<float>(args, part_operand(part)),
                     .gradient = out<float>(args, part_operand(parts_of(op) + part)),
                     .logits = logits,
                     .size = part_size(op, part)};
    PARBUCKLE_TRY(body(p));
    logits += height * p.size;
  }
  return {};
}

struct RowJob {
  std::int64_t row = 0;  // in the tile
  std::int64_t height = 0;
  std::int64_t target = 0;
  double loss_scale = 1;
};

/// Calls body(x, size, first) for each part's piece of one row of logits, which begins with vocabulary entry `first`.
template <class F>
void each_piece(const OpShape& op, float* logits, const RowJob& job, const F& body) {
  std::int64_t first = 0;
  for (std::int64_t part = 0; part < parts_of(op); ++part) {
    const std::int64_t size = part_size(op, part);
    body(logits + job.row * size, size, first);
    logits += job.height * size;
    first += size;
  }
}

/// A row's logits become the gradient of its loss, loss_scale (softmax - [target]); returns the loss.
double soften_row(const Kernels& kernels, const OpShape& op, float* logits, const RowJob& job) {
  const auto holds_target = [&](std::int64_t size, std::int64_t first) {
    return job.target >= first && job.target < first + size;
  };
  float most = -std::numeric_limits<float>::infinity();
  float wanted = 0;
  each_piece(op, logits, job, [&](float* x, std::int64_t size, std::int64_t first) {
    most = std::max(most, kernels.largest(x, size));
    wanted = holds_target(size, first) ? x[job.target - first] : wanted;
  });
  double total = 0;
  each_piece(op, logits, job, [&](float* x, std::int64_t size, std::int64_t /*first*/) {
    total += static_cast<double>(kernels.exponentials(x, size, most));
  });
  const auto factor = static_cast<float>(job.loss_scale / total);
  each_piece(op, logits, job, [&](float* x, std::int64_t size, std::int64_t first) {
    kernels.scale(x, size, factor);
    if (holds_target(size, first)) {
      x[job.target - first] -= static_cast<float>(job.loss_scale);
    }
  });
  return std::log(total) + (static_cast<double>(most) - static_cast<double>(wanted));
}

/// The logits of a tile become gradients; rows that it lacks become 0.
void soften(const Context& context,
            const OpShape& op,
            const OpArgs& args,
            const HeadWorkspace& w,
            const HeadTile& tile) {
  const auto* const targets = in<std::int32_t>(args, 1);
  const double loss_scale = in<StepScalars>(args, 2)->loss_scale;
  parallel_for(context.team(), tile.height, [&](std::int64_t row, int /*thread*/) {
    RowJob job{.row = row, .height = tile.height, .loss_scale = loss_scale};
    if (row < tile.count()) {
      job.target = targets[tile.rows[static_cast<std::size_t>(row)]];
      w.losses[tile.first + row] = soften_row(context.kernels(), op, w.logits, job);
    } else {
      each_piece(op, w.logits, job, [](float* x, std::int64_t size, std::int64_t /*first*/) {
        std::fill_n(x, size, 0.0F);
      });
    }
  });
}

struct LossRun {
  const OpShape& op;
  const OpArgs& args;
  HeadSizes sizes;
  HeadWorkspace workspace;
};

Status run_tile(Context& context, const LossRun& run, const HeadTile& tile) {
  const HeadWorkspace& w = run.workspace;
  const std::int64_t width = run.sizes.width;
  gather(context, tile, width, in<float>(run.args, 0), w.h);
  PARBUCKLE_TRY(each_part(run.op, run.args, w, tile.height, [&](const HeadPart& part) {
    return part_logits(context, width, w, part, tile.height);
  }));
  soften(context, run.op, run.args, w, tile);
  std::fill_n(w.dh, tile.height * width, 0.0F);
  PARBUCKLE_TRY(each_part(run.op, run.args, w, tile.height, [&](const HeadPart& part) {
    return part_gradients(context, width, w, part, tile.height);
  }));
  scatter(context, tile, width, w.dh, out<float>(run.args, 4));
  return {};
}

Status run(Context& context, const OpShape& op, const OpArgs& args) {
  const HeadSizes s = sizes_of(op);
  Pieces pieces(args.workspace);
  const LossRun loss{.op = op, .args = args, .sizes = s, .workspace = carve_head(pieces, s, 0)};
  const HeadWorkspace& w = loss.workspace;
  const std::span<const std::int32_t> targets(in<std::int32_t>(args, 1),
                                              static_cast<std::size_t>(s.rows));
  PARBUCKLE_ASSIGN(const std::int64_t count, collect_targets(targets, s.vocabulary, w.targeted));
  std::fill_n(out<float>(args, 4), s.rows * s.width, 0.0F);
  PARBUCKLE_TRY(
      each_tile(s, w, count, [&](const HeadTile& tile) { return run_tile(context, loss, tile); }));
  write_loss(w.losses, count, out<double>(args, 3));
  return {};
}

constexpr std::array entries{OpEntry{OpKind::head_loss, prepare, run}};

}  // namespace

std::span<const OpEntry> head_loss_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
