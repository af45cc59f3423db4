#include "engine/train/eval_run.h"

#include <chrono>
#include <cmath>

namespace parbuckle {

Result<Loader> eval_loader(const Dataset& data, std::int64_t batch_rows) {
  return Loader::create(data,
                        {.batch_rows = batch_rows,
                         .accumulation = eval_micro_batches,
                         .epochs = 1,
                         .shuffle = false});
}

Result<Lowered> lower_eval(const ModelConfig& config,
                           const Dataset& data,
                           std::int64_t batch_rows,
                           Machine& machine) {
  PARBUCKLE_ASSIGN(const Loader loader, eval_loader(data, batch_rows));
  PARBUCKLE_ASSIGN(const std::vector<ShapeKey> shapes, shapes_of(loader));
  return lower(config,
               {.phase = Phase::eval, .micro_batches = eval_micro_batches, .shapes = shapes},
               machine.ops());
}

Result<std::unique_ptr<EvalRun>> EvalRun::create(const Planned& planned,
                                                 const ModelConfig& config,
                                                 Machine& machine,
                                                 Tiers& tiers) {
  std::unique_ptr<EvalRun> evaluator(new EvalRun());  // private constructor
  PARBUCKLE_ASSIGN(evaluator->executor_, make_executor(planned, machine, tiers));
  PARBUCKLE_ASSIGN(StepInputs inputs,
                   StepInputs::bind(planned.lowered, config, *evaluator->executor_));
  evaluator->inputs_.emplace(std::move(inputs));
  return evaluator;
}

Result<EvalRecord> EvalRun::evaluate(const Dataset& data, std::int64_t batch_rows) {
  const auto begin = std::chrono::steady_clock::now();
  PARBUCKLE_ASSIGN(Loader loader, eval_loader(data, batch_rows));
  LossSum sum;
  StepTrace trace;
  while (true) {
    PARBUCKLE_ASSIGN(const std::optional<StepBatch> batch, loader.next());
    if (!batch) {
      break;
    }
    PARBUCKLE_TRY(inputs_->fill(*batch));
    PARBUCKLE_TRY(executor_->run_step({.shapes = inputs_->shapes()}, trace));
    const LossSum pass = inputs_->losses();
    sum.loss += pass.loss;
    sum.targets += pass.targets;
  }
  EvalRecord record{.targets = static_cast<std::int64_t>(sum.targets)};
  record.eval_loss = sum.loss / sum.targets;
  record.perplexity = std::exp(record.eval_loss);
  record.eval_runtime =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return record;
}

}  // namespace parbuckle
