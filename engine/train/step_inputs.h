// Between the data and the blocks that programs read: ids, positions and targets of every micro-batch, the step's scalars.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/op.h"
#include "engine/data/batch.h"
#include "engine/graph/lower.h"
#include "engine/model/config.h"
#include "offload/run/executor.h"

namespace parbuckle {

/// Sum of the losses of a step's targets, and their number.
struct LossSum {
  double loss = 0;
  double targets = 0;
};

class StepInputs {
 public:
  /// Finds the blocks and writes what never changes. Both arguments must outlive it.
  static Result<StepInputs> bind(const Lowered& lowered,
                                 const ModelConfig& config,
                                 Executor& executor);

  /// Writes every micro-batch; missing ones become padding alone. Fails on a token id beyond the embedding, naming it.
  Status fill(const StepBatch& step);
  /// Train only: scalars and touched ids.
  void fill_scalars(const StepScalars& scalars, std::span<const std::int32_t> touched);

  /// Index into Workload::shapes of each micro-batch, after fill().
  [[nodiscard]] std::span<const std::int32_t> shapes() const { return shapes_; }
  /// After the step.
  [[nodiscard]] LossSum losses() const;
  /// sqrt of all partial sums of squares in index order: the global norm where no task computed it.
  [[nodiscard]] double gradient_norm() const;
  /// The first gradient whose squares do not add up to a number; empty: there is none.
  [[nodiscard]] std::string gradient_not_finite() const;

 private:
  struct BatchBlock {
    std::byte* columns = nullptr;
    const double* loss = nullptr;
  };
  explicit StepInputs(const Lowered& lowered) : lowered_(&lowered) {}
  void write_columns(std::size_t micro_batch, const MicroBatch& batch, std::int64_t rows);

  const Lowered* lowered_;
  std::int64_t vocab_size_ = 0;
  std::vector<BatchBlock> batches_;
  std::vector<std::int32_t> shapes_;
  StepScalars* step_ = nullptr;
  TouchedRows* touched_ = nullptr;
  std::span<const double> partials_;
};

/// The block behind a span of one block, for Executor::host_block.
Result<std::span<std::byte>> host_span(const Lowered& lowered,
                                       SpanId span,
                                       std::int32_t micro_batch,
                                       Executor& executor);

}  // namespace parbuckle
