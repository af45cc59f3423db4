#include "engine/train/step_inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>

#include "engine/train/shapes.h"

namespace parbuckle {
namespace {

template <class T>
T* as(std::span<std::byte> bytes) {
  return static_cast<T*>(static_cast<void*>(bytes.data()));
}

Status check_ids(const MicroBatch& batch, std::int64_t vocab_size) {
  for (const std::int32_t id : batch.token_ids) {
    if (id >= vocab_size) {
      return invalid("token id " + std::to_string(id) + " in the data: the model's embedding has " +
                     std::to_string(vocab_size) + " rows");
    }
  }
  return {};
}

}  // namespace

Result<std::span<std::byte>> host_span(const Lowered& lowered,
                                       SpanId span,
                                       std::int32_t micro_batch,
                                       Executor& executor) {
  const BlockId block = lowered.workload.spans[span.index()].blocks.front();
  return executor.host_block(lowered.workload.blocks[block.index()].name, micro_batch);
}

Result<StepInputs> StepInputs::bind(const Lowered& lowered,
                                    const ModelConfig& config,
                                    Executor& executor) {
  StepInputs inputs(lowered);
  const StepBindings& bindings = lowered.bindings;
  inputs.vocab_size_ = config.vocab_size;
  for (std::int32_t m = 0; m < lowered.workload.micro_batches; ++m) {
    PARBUCKLE_ASSIGN(const auto columns, host_span(lowered, bindings.batch, m, executor));
    BatchBlock block{.columns = columns.data()};
    if (bindings.loss.valid()) {
      PARBUCKLE_ASSIGN(const auto loss, host_span(lowered, bindings.loss, m, executor));
      block.loss = as<double>(loss);
    }
    inputs.batches_.push_back(block);
  }
  inputs.shapes_.assign(inputs.batches_.size(), 0);
  if (bindings.inverse_frequencies.valid()) {
    const std::vector<float> frequencies = inverse_frequencies(config);
    PARBUCKLE_ASSIGN(const auto block,
                     host_span(lowered, bindings.inverse_frequencies, -1, executor));
    std::memcpy(block.data(), frequencies.data(), frequencies.size() * sizeof(float));
  }
  if (bindings.step.valid()) {
    PARBUCKLE_ASSIGN(const auto step, host_span(lowered, bindings.step, -1, executor));
    PARBUCKLE_ASSIGN(const auto touched, host_span(lowered, bindings.touched, -1, executor));
    PARBUCKLE_ASSIGN(const auto partials, host_span(lowered, bindings.partials, -1, executor));
    inputs.step_ = as<StepScalars>(step);
    inputs.touched_ = as<TouchedRows>(touched);
    inputs.partials_ = {as<double>(partials), static_cast<std::size_t>(bindings.partial_count)};
  }
  return inputs;
}

void StepInputs::write_columns(std::size_t micro_batch,
                               const MicroBatch& batch,
                               std::int64_t rows) {
  const std::array<std::pair<BatchColumn, const std::vector<std::int32_t>*>, batch_column_count>
      columns{{{BatchColumn::tokens, &batch.token_ids},
               {BatchColumn::positions, &batch.positions},
               {BatchColumn::segment_begin, &batch.segment_begin},
               {BatchColumn::targets, &batch.target_ids},
               {BatchColumn::slots, &batch.slots}}};
  for (const auto& [column, values] : columns) {
    auto* const to =
        as<std::int32_t>({batches_[micro_batch].columns + batch_column_offset(column, rows),
                          static_cast<std::size_t>(rows) * sizeof(std::int32_t)});
    std::fill(std::copy(values->begin(), values->end(), to), to + rows, -1);
  }
}

Status StepInputs::fill(const StepBatch& step) {
  static const MicroBatch padding;
  const std::vector<ShapeKey>& shapes = lowered_->workload.shapes;
  for (std::size_t m = 0; m < batches_.size(); ++m) {
    const MicroBatch& batch = m < step.micro_batches.size() ? step.micro_batches[m] : padding;
    PARBUCKLE_TRY(check_ids(batch, vocab_size_));
    shapes_[m] = shape_for(shapes, batch.rows);
    write_columns(m, batch, shapes[static_cast<std::size_t>(shapes_[m])].rows);
  }
  return {};
}

void StepInputs::fill_scalars(const StepScalars& scalars, std::span<const std::int32_t> touched) {
  *step_ = scalars;
  touched_->count = static_cast<std::int64_t>(touched.size());
  auto* const ids = static_cast<std::int32_t*>(static_cast<void*>(touched_ + 1));
  std::copy(touched.begin(), touched.end(), ids);
}

LossSum StepInputs::losses() const {
  LossSum sum;
  for (const BatchBlock& batch : batches_) {
    sum.loss += batch.loss[0];
    sum.targets += batch.loss[1];
  }
  return sum;
}

std::string StepInputs::gradient_not_finite() const {
  const Workload& workload = lowered_->workload;
  for (const BlockId id : workload.spans[lowered_->bindings.partials.index()].blocks) {
    const Block& block = workload.blocks[id.index()];
    const auto first = static_cast<std::size_t>(block.span_offset) / sizeof(double);
    const auto count = static_cast<std::size_t>(block.bytes) / sizeof(double);
    const auto sums = partials_.subspan(first, count);
    if (!std::all_of(sums.begin(), sums.end(), [](double sum) { return std::isfinite(sum); })) {
      return block.name.substr(block.name.find('.') + 1);
    }
  }
  return "";
}

double StepInputs::gradient_norm() const {
  double squares = 0;
  for (const double partial : partials_) {
    squares += partial;
  }
  return std::sqrt(squares);
}

}  // namespace parbuckle
