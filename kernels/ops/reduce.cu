#include "kernels/ops/reduce.h"

#include <array>

#include "kernels/ops/warp.h"

namespace parbuckle::cuda {
namespace {

constexpr std::int64_t chunk = 65'536;  // elements per partial sum

/// One block per chunk, in float64.
struct SquareSum {
  static constexpr int threads = 256;
  static constexpr std::int64_t shared_bytes = threads / simt::warp_size * sizeof(double);
  Global<const float> g;
  Global<double> sums;
  std::int64_t count;
  SIMT_DEVICE void operator()(const Thread& t) const {
    const std::int64_t begin = t.block() * chunk;
    const std::int64_t end = simt::smaller(begin + chunk, count);
    double sum = 0;
    for (std::int64_t i = begin + t.index(); i < end; i += threads) {
      const float value = g[i];
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
    sum = block_sum<threads>(t, t.shared<double>(0, threads / simt::warp_size), sum);
    if (t.index() == 0) {
      sums[t.block()] = sum;
    }
  }
};

Result<std::int64_t> prepare_square_sum(const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, ceil_divide(shape_of(op, 0).elements(), chunk)}));
  return std::int64_t{0};
}

Status run_square_sum(const Context& context, const OpShape& op, const OpArgs& args) {
  const std::int64_t n = shape_of(op, 0).elements();
  if (n == 0) {
    return {};
  }
  return simt::launch(context.queue,
                      {.x = ceil_divide(n, chunk), .shared_bytes = SquareSum::shared_bytes},
                      SquareSum{.g = view_in<float>(context, args, 0),
                                .sums = view_out<double>(context, args, 1),
                                .count = n});
}

/// Sum of squares of one row by one warp, in float64; of a + b where b is there.
SIMT_DEVICE double row_squares(const Thread& t,
                               const Global<const float>& a,
                               const Global<const float>& b,
                               std::int64_t row,
                               std::int64_t width) {
  double sum = 0;
  for (std::int64_t i = t.lane(); i < width; i += simt::warp_size) {
    float value = a[row * width + i];
    if (b) {
      value += b[row * width + i];
    }
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return warp_sum(t, sum);
}

struct RowSquares {
  Global<const float> g;
  Global<double> sums;
  std::int64_t width;
  SIMT_DEVICE void operator()(const Thread& t, std::int64_t row) const {
    const double sum = row_squares(t, g, {}, row, width);
    if (t.lane() == 0) {
      sums[row] = sum;
    }
  }
};

Result<std::int64_t> prepare_row_squares(const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, rows_of(shape_of(op, 0))}));
  return std::int64_t{0};
}

Status run_row_squares(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each_row(context,
                      rows_of(shape_of(op, 0)),
                      RowSquares{.g = view_in<float>(context, args, 0),
                                 .sums = view_out<double>(context, args, 1),
                                 .width = columns_of(shape_of(op, 0))});
}

struct GatherTouched {
  TouchedView touched;
  Global<const float> gradient;
  Global<float> to;
  std::int64_t row_begin, part, width;
  SIMT_DEVICE void operator()(const Thread& t, std::int64_t u) const {
    const TouchedRows header = touched.header[0];
    if (u >= header.count) {
      return;
    }
    const std::int64_t row = touched.ids[u] - row_begin;
    if (row < 0 || row >= part) {
      return;
    }
    for (std::int64_t i = t.lane(); i < width; i += simt::warp_size) {
      to[u * width + i] = gradient[row * width + i];
    }
  }
};

Result<std::int64_t> prepare_gather_touched(const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, any_size, any_size}));
  if (columns_of(shape_of(op, 1)) != columns_of(shape_of(op, 2))) {
    return internal_error("gather_touched: table and rows differ in width");
  }
  return std::int64_t{0};
}

Status run_gather_touched(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each_row(context,
                      rows_of(shape_of(op, 2)),
                      GatherTouched{.touched = view_touched(context, args, 0),
                                    .gradient = view_in<float>(context, args, 1),
                                    .to = view_out<float>(context, args, 2),
                                    .row_begin = op.attributes.row_begin,
                                    .part = rows_of(shape_of(op, 1)),
                                    .width = columns_of(shape_of(op, 1))});
}

struct TouchedSquares {
  TouchedView touched;
  Global<const float> sparse, dense;  // dense: where there is one
  Global<double> sums;
  std::int64_t width;
  SIMT_DEVICE void operator()(const Thread& t, std::int64_t u) const {
    const TouchedRows header = touched.header[0];
    if (u >= header.count) {
      return;
    }
    const double sum = row_squares(t, sparse, dense, u, width);
    if (t.lane() == 0) {
      sums[touched.ids[u]] = sum;
    }
  }
};

/// Operands without `dense` where row_begin is -1.
bool has_dense(const OpShape& op) {
  return op.attributes.row_begin >= 0;
}

Result<std::int64_t> prepare_touched_squares(const OpShape& op) {
  if (has_dense(op)) {
    PARBUCKLE_TRY(expect_elements(op, {any_size, any_size, shape_of(op, 1).elements(), any_size}));
  } else {
    PARBUCKLE_TRY(expect_elements(op, {any_size, any_size, any_size}));
  }
  return std::int64_t{0};
}

Status run_touched_squares(const Context& context, const OpShape& op, const OpArgs& args) {
  const bool both = has_dense(op);
  return for_each_row(
      context,
      rows_of(shape_of(op, 1)),
      TouchedSquares{.touched = view_touched(context, args, 0),
                     .sparse = view_in<float>(context, args, both ? 2 : 1),
                     .dense = both ? view_in<float>(context, args, 1) : Global<const float>(),
                     .sums = view_out<double>(context, args, both ? 3 : 2),
                     .width = columns_of(shape_of(op, 1))});
}

SIMT_DEVICE UpdateScalars update_of(const StepScalars& step, float max_norm, double norm) {
  const auto steps = static_cast<double>(step.step);
  UpdateScalars update;
  update.learning_rate = step.learning_rate;
  update.beta1 = step.beta1;
  update.beta2 = step.beta2;
  update.epsilon = step.epsilon;
  update.weight_decay = step.weight_decay;
  update.clip_scale = 1;
  update.correction1 = static_cast<float>(1 - simt::power(static_cast<double>(step.beta1), steps));
  update.correction2_sqrt = static_cast<float>(
      simt::square_root(1 - simt::power(static_cast<double>(step.beta2), steps)));
  update.norm = norm;
  update.step = step.step;
  if (max_norm > 0) {
    const double wanted = static_cast<double>(max_norm) / (norm + 1e-6);
    update.clip_scale = static_cast<float>(wanted < 1.0 ? wanted : 1.0);
  }
  return update;
}

/// One block: all threads bring partial sums into shared memory, one adds them in index order, as the CPU does.
struct GlobalNorm {
  static constexpr int threads = 256;
  static constexpr std::int64_t staged = 1024;
  static constexpr std::int64_t shared_bytes = staged * sizeof(double);
  Global<const double> partials;
  Global<const StepScalars> step;
  Global<UpdateScalars> update;
  std::int64_t count;
  SIMT_DEVICE void operator()(const Thread& t) const {
    const Shared<double> stage = t.shared<double>(0, staged);
    double sum = 0;
    for (std::int64_t begin = 0; begin < count; begin += staged) {
      const std::int64_t here = simt::smaller(staged, count - begin);
      for (std::int64_t i = t.index(); i < here; i += threads) {
        stage[i] = partials[begin + i];
      }
      t.sync();
      if (t.index() == 0) {
        for (std::int64_t i = 0; i < here; ++i) {
          sum += stage[i];
        }
      }
      t.sync();
    }
    if (t.index() == 0) {
      const StepScalars scalars = step[0];
      update[0] = update_of(scalars, scalars.max_norm, simt::square_root(sum));
    }
  }
};

Result<std::int64_t> prepare_global_norm(const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, any_size, any_size}));
  return std::int64_t{0};
}

Status run_global_norm(const Context& context, const OpShape& op, const OpArgs& args) {
  return simt::launch(context.queue,
                      {.shared_bytes = GlobalNorm::shared_bytes},
                      GlobalNorm{.partials = view_in<double>(context, args, 0),
                                 .step = view_struct<StepScalars>(context, args, 1),
                                 .update = context.queue.view(out<UpdateScalars>(args, 2), 1),
                                 .count = shape_of(op, 0).elements()});
}

struct PrepareUpdate {
  Global<const StepScalars> step;
  Global<UpdateScalars> update;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t /*i*/) const {
    const StepScalars scalars = step[0];
    update[0] = update_of(scalars, 0, 0);
  }
};

Result<std::int64_t> prepare_prepare_update(const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, any_size}));
  return std::int64_t{0};
}

Status run_prepare_update(const Context& context, const OpShape& /*op*/, const OpArgs& args) {
  return for_each(context,
                  1,
                  PrepareUpdate{view_struct<StepScalars>(context, args, 0),
                                context.queue.view(out<UpdateScalars>(args, 1), 1)});
}

constexpr std::array entries{
    OpEntry{OpKind::square_sum, prepare_square_sum, run_square_sum},
    OpEntry{OpKind::row_square_sum, prepare_row_squares, run_row_squares},
    OpEntry{OpKind::gather_touched, prepare_gather_touched, run_gather_touched},
    OpEntry{OpKind::row_square_sum_touched, prepare_touched_squares, run_touched_squares},
    OpEntry{OpKind::global_norm, prepare_global_norm, run_global_norm},
    OpEntry{OpKind::prepare_update, prepare_prepare_update, run_prepare_update}};

}  // namespace

std::span<const OpEntry> reduce_ops() {
  return entries;
}

}  // namespace parbuckle::cuda
