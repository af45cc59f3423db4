#include "cpu/ops/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace parbuckle::cpu {
namespace {

constexpr std::int64_t chunk = 65'536;  // elements per partial sum

std::int64_t chunks_of(std::int64_t elements) {
  return (elements + chunk - 1) / chunk;
}

Result<std::int64_t> prepare_square_sum(Context& /*context*/, const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, chunks_of(shape_of(op, 0).elements())}));
  return std::int64_t{0};
}

Status run_square_sum(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const g = in<float>(args, 0);
  auto* const sums = out<double>(args, 1);
  const std::int64_t n = shape_of(op, 0).elements();
  parallel_for(context.team(), chunks_of(n), [&](std::int64_t i, int /*thread*/) {
    sums[i] = context.kernels().square_sum(g + i * chunk, nullptr, std::min(chunk, n - i * chunk));
  });
  return {};
}

Result<std::int64_t> prepare_row_square_sum(Context& /*context*/, const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, rows_of(shape_of(op, 0))}));
  return std::int64_t{0};
}

Status run_row_square_sum(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const g = in<float>(args, 0);
  auto* const sums = out<double>(args, 1);
  const std::int64_t width = columns_of(shape_of(op, 0));
  parallel_for(context.team(), rows_of(shape_of(op, 0)), [&](std::int64_t row, int /*thread*/) {
    sums[row] = context.kernels().square_sum(g + row * width, nullptr, width);
  });
  return {};
}

Result<std::int64_t> prepare_gather_touched(Context& /*context*/, const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, any_size, any_size}));
  if (columns_of(shape_of(op, 1)) != columns_of(shape_of(op, 2))) {
    return internal_error("gather_touched: table and rows differ in width");
  }
  return std::int64_t{0};
}

Status run_gather_touched(Context& context, const OpShape& op, const OpArgs& args) {
  const auto ids = touched_ids(args, 0);
  const auto* const gradient = in<float>(args, 1);
  auto* const to = out<float>(args, 2);
  const std::int64_t part = rows_of(shape_of(op, 1));
  const std::int64_t width = columns_of(shape_of(op, 1));
  const std::int64_t first = op.attributes.row_begin;
  const auto count = static_cast<std::int64_t>(ids.size());
  parallel_for(context.team(), count, [&](std::int64_t u, int /*thread*/) {
    const std::int64_t row = ids[static_cast<std::size_t>(u)] - first;
    if (row >= 0 && row < part) {
      std::copy_n(gradient + row * width, width, to + u * width);
    }
  });
  return {};
}

/// Operands without `dense` where row_begin is -1.
bool has_dense(const OpShape& op) {
  return op.attributes.row_begin >= 0;
}

Result<std::int64_t> prepare_touched_sums(Context& /*context*/, const OpShape& op) {
  if (has_dense(op)) {
    PARBUCKLE_TRY(expect_elements(op, {any_size, any_size, shape_of(op, 1).elements(), any_size}));
  } else {
    PARBUCKLE_TRY(expect_elements(op, {any_size, any_size, any_size}));
  }
  return std::int64_t{0};
}

Status run_touched_sums(Context& context, const OpShape& op, const OpArgs& args) {
  const auto ids = touched_ids(args, 0);
  const bool dense_too = has_dense(op);
  const auto* const sparse = in<float>(args, dense_too ? 2 : 1);
  const auto* const dense = dense_too ? in<float>(args, 1) : nullptr;
  auto* const sums = out<double>(args, dense_too ? 3 : 2);
  const std::int64_t width = columns_of(shape_of(op, 1));
  const auto count = static_cast<std::int64_t>(ids.size());
  parallel_for(context.team(), count, [&](std::int64_t u, int /*thread*/) {
    sums[ids[static_cast<std::size_t>(u)]] = context.kernels().square_sum(
        sparse + u * width, dense_too ? dense + u * width : nullptr, width);
  });
  return {};
}

void fill_update(const StepScalars& step, double norm, UpdateScalars& update) {
  const auto power = static_cast<double>(step.step);
  const double beta1 = static_cast<double>(step.beta1);
  const double beta2 = static_cast<double>(step.beta2);
  const double allowed = static_cast<double>(step.max_norm);
  update = {.learning_rate = step.learning_rate,
            .beta1 = step.beta1,
            .beta2 = step.beta2,
            .epsilon = step.epsilon,
            .weight_decay = step.weight_decay,
            .clip_scale = 1,
            .correction1 = static_cast<float>(1 - std::pow(beta1, power)),
            .correction2_sqrt = static_cast<float>(std::sqrt(1 - std::pow(beta2, power))),
            .norm = norm,
            .step = step.step};
  if (allowed > 0) {
    update.clip_scale = static_cast<float>(std::min(1.0, allowed / (norm + 1e-6)));
  }
}

Result<std::int64_t> prepare_global_norm(Context& /*context*/, const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, any_size, any_size}));
  return std::int64_t{0};
}

Status run_global_norm(Context& /*context*/, const OpShape& op, const OpArgs& args) {
  const auto* const partials = in<double>(args, 0);
  double sum = 0;
  for (std::int64_t i = 0; i < shape_of(op, 0).elements(); ++i) {
    sum += partials[i];
  }
  fill_update(*in<StepScalars>(args, 1), std::sqrt(sum), *out<UpdateScalars>(args, 2));
  return {};
}

Result<std::int64_t> prepare_no_norm(Context& /*context*/, const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, any_size}));
  return std::int64_t{0};
}

Status run_prepare_update(Context& /*context*/, const OpShape& /*op*/, const OpArgs& args) {
  StepScalars step = *in<StepScalars>(args, 0);
  step.max_norm = 0;
  fill_update(step, 0, *out<UpdateScalars>(args, 1));
  return {};
}

constexpr std::array entries{
    OpEntry{OpKind::square_sum, prepare_square_sum, run_square_sum},
    OpEntry{OpKind::row_square_sum, prepare_row_square_sum, run_row_square_sum},
    OpEntry{OpKind::gather_touched, prepare_gather_touched, run_gather_touched},
    OpEntry{OpKind::row_square_sum_touched, prepare_touched_sums, run_touched_sums},
    OpEntry{OpKind::global_norm, prepare_global_norm, run_global_norm},
    OpEntry{OpKind::prepare_update, prepare_no_norm, run_prepare_update}};

}  // namespace

std::span<const OpEntry> reduce_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
