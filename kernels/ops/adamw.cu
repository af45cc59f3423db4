#include "kernels/ops/adamw.h"

#include <array>

namespace parbuckle::cuda {
namespace {

/// Where the state of the weights is.
struct State {
  Global<float> w, m, v;
};

/// One update, number by number what cpu/ops/simd does: only correctly rounded + - x / sqrt fma, in this order.
struct Formula {
  float keep1, beta2, keep2, clip, uncorrect, epsilon, rate, shrink;

  SIMT_DEVICE Formula(const UpdateScalars& u, bool decay)
      : keep1(1.0F - u.beta1),
        beta2(u.beta2),
        keep2(1.0F - u.beta2),
        clip(u.clip_scale),
        uncorrect(1.0F / u.correction2_sqrt),
        epsilon(u.epsilon),
        rate(0.0F - u.learning_rate / u.correction1),
        shrink(decay ? 1.0F - u.learning_rate * u.weight_decay : 1.0F) {}

  SIMT_DEVICE void apply(const State& state, std::int64_t i, float gradient) const {
    const float g = gradient * clip;
    const float old_m = state.m[i];
    const float m = simt::fused(keep1, g - old_m, old_m);
    const float v = simt::fused(beta2, state.v[i], keep2 * g * g);
    const float step = m / simt::fused(simt::square_root(v), uncorrect, epsilon);
    state.m[i] = m;
    state.v[i] = v;
    state.w[i] = simt::fused(rate, step, state.w[i] * shrink);
  }
};

struct Adamw {
  static constexpr int threads = 256;
  State state;
  Global<const float> g;
  Global<const UpdateScalars> update;
  Global<std::int64_t> faults;
  std::int64_t count;
  bool decay;
  SIMT_DEVICE void operator()(const Thread& t) const {
    const UpdateScalars scalars = update[0];
    const Formula formula(scalars, decay);
    for (std::int64_t i = t.block() * threads + t.index(); i < count; i += t.blocks() * threads) {
      const float gradient = g[i];
      if (!simt::finite(gradient)) {
        report_fault(t, faults, DataFault::gradient, i);
      }
      formula.apply(state, i, gradient);
    }
  }
};

State state_of(const Context& context, const OpArgs& args) {
  return {view_out<float>(context, args, 0),
          view_out<float>(context, args, 1),
          view_out<float>(context, args, 2)};
}

Result<std::int64_t> prepare_adamw(const OpShape& op) {
  const std::int64_t n = shape_of(op, 0).elements();
  PARBUCKLE_TRY(expect_elements(op, {n, n, n, n, any_size}));
  return std::int64_t{0};
}

Status run_adamw(const Context& context, const OpShape& op, const OpArgs& args) {
  constexpr std::int64_t most_blocks = 4096;
  const std::int64_t n = shape_of(op, 0).elements();
  if (n == 0) {
    return {};
  }
  return simt::launch(context.queue,
                      {.x = simt::smaller(ceil_divide(n, Adamw::threads), most_blocks)},
                      Adamw{.state = state_of(context, args),
                            .g = view_in<float>(context, args, 3),
                            .update = view_struct<UpdateScalars>(context, args, 4),
                            .faults = view_faults(context),
                            .count = n,
                            .decay = op.attributes.decay});
}

/// One warp per row of a part of a table; its gradient is dense, sparse or both.
struct TableRow {
  State state;
  Global<const float> dense, sparse;  // dense: where there is one
  TouchedView touched;
  Global<const UpdateScalars> update;
  Global<std::int64_t> faults;
  std::int64_t row_begin, width;
  bool decay;

  /// Place of an id among the touched ones; -1 where it is not among them.
  SIMT_DEVICE std::int64_t place(std::int64_t id) const {
    const TouchedRows header = touched.header[0];
    std::int64_t low = 0;
    std::int64_t high = header.count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (touched.ids[middle] < id) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < header.count && touched.ids[low] == id ? low : -1;
  }

  SIMT_DEVICE void operator()(const Thread& t, std::int64_t row) const {
    const UpdateScalars scalars = update[0];
    const Formula formula(scalars, decay);
    const std::int64_t extra = place(row_begin + row);
    for (std::int64_t column = t.lane(); column < width; column += simt::warp_size) {
      const std::int64_t i = row * width + column;
      float gradient = 0;
      if (dense) {
        gradient = dense[i];
      }
      if (extra >= 0) {
        const float more = sparse[extra * width + column];
        gradient = dense ? gradient + more : more;
      }
      if (!simt::finite(gradient)) {
        report_fault(t, faults, DataFault::gradient, i);
      }
      formula.apply(state, i, gradient);
    }
  }
};

bool has_dense(const OpShape& op) {
  return op.operands.size() == 7;
}

Result<std::int64_t> prepare_table(const OpShape& op) {
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

Status run_table(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each_row(
      context,
      rows_of(shape_of(op, 0)),
      TableRow{.state = state_of(context, args),
               .dense = has_dense(op) ? view_in<float>(context, args, 6) : Global<const float>(),
               .sparse = view_in<float>(context, args, 3),
               .touched = view_touched(context, args, 4),
               .update = view_struct<UpdateScalars>(context, args, 5),
               .faults = view_faults(context),
               .row_begin = op.attributes.row_begin,
               .width = columns_of(shape_of(op, 0)),
               .decay = op.attributes.decay});
}

constexpr std::array entries{OpEntry{OpKind::adamw, prepare_adamw, run_adamw},
                             OpEntry{OpKind::adamw_table, prepare_table, run_table}};

}  // namespace

std::span<const OpEntry> adamw_ops() {
  return entries;
}

}  // namespace parbuckle::cuda
