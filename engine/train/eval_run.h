// Loss over a data set, forward only, along a plan of its own that shares memory with the run it belongs to.
#pragma once

#include <memory>

#include "parbuckle/status.h"
#include "parbuckle/trainer.h"

#include "engine/data/loader.h"
#include "engine/train/set_up.h"
#include "engine/train/step_inputs.h"
#include "engine/train/tiers.h"

namespace parbuckle {

/// Micro-batches of one pass: enough that weights are read seldom, few enough that what stands between units stays small.
inline constexpr std::int32_t eval_micro_batches = 4;

class EvalRun {
 public:
  /// All arguments must outlive it. Weights are wherever the shared plan has them.
  static Result<std::unique_ptr<EvalRun>> create(const Planned& planned,
                                                 const ModelConfig& config,
                                                 Machine& machine,
                                                 Tiers& tiers);

  /// One pass over `data` in file order, `batch_rows` rows a micro-batch. `record.step` is the caller's.
  Result<EvalRecord> evaluate(const Dataset& data, std::int64_t batch_rows);

  [[nodiscard]] Executor& executor() { return *executor_; }

 private:
  EvalRun() = default;

  std::unique_ptr<Executor> executor_;
  std::optional<StepInputs> inputs_;
};

/// The loader with which evaluation reads: every row once, in file order.
Result<Loader> eval_loader(const Dataset& data, std::int64_t batch_rows);

/// Lowers the eval phase for the shapes of `data`.
Result<Lowered> lower_eval(const ModelConfig& config,
                           const Dataset& data,
                           std::int64_t batch_rows,
                           Machine& machine);

}  // namespace parbuckle
