// One fine-tuning run: set up once, then step after step along its plan.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "parbuckle/trainer.h"

#include "engine/train/eval_run.h"
#include "engine/train/metrics.h"
#include "engine/train/schedule.h"
#include "engine/train/set_up.h"
#include "engine/train/step_inputs.h"
#include "engine/train/tiers.h"

namespace parbuckle {

class Trainer {
 public:
  /// Everything up to the plan. Takes no large memory and writes nothing but temporary files of the data.
  static Result<std::unique_ptr<Trainer>> create(const TrainConfig& config, Observer& observer);

  [[nodiscard]] const Plan& plan() const { return train_.plan; }
  [[nodiscard]] std::string plan_text() const;

  /// Takes the memory, loads, trains, saves. REQUIRES: check_output_folder() of the output folder was ok.
  Result<TrainReport> run();

 private:
  Trainer(const TrainConfig& config, Observer& observer, OpenedModel model)
      : config_(config), observer_(observer), model_(std::move(model)) {}

  Status open_training_data();
  Status lower_phases();
  Status make_plans();
  Status open_output();
  Status take_memory();
  Status train_steps();
  Status one_step(const StepBatch& batch);
  [[nodiscard]] StepScalars scalars_for(const StepBatch& batch) const;
  [[nodiscard]] bool norm_allows_update() const;
  Result<bool> judge_step(const StepBatch& batch, StepRecord& record);
  Status record_step(const StepBatch& batch, const StepRecord& record);
  Status flush_pending();
  Status evaluate_now();
  Status save();
  Result<TrainReport> report();

  const TrainConfig config_;
  Observer& observer_;
  OpenedModel model_;
  std::optional<Dataset> data_;
  std::optional<Dataset> eval_data_;
  std::optional<Loader> loader_;
  Schedule schedule_;
  std::unique_ptr<Machine> machine_;
  Planned train_;
  std::optional<Planned> eval_;
  Hardware hardware_;

  Tiers tiers_;
  std::unique_ptr<Executor> executor_;
  std::optional<StepInputs> inputs_;
  std::unique_ptr<EvalRun> evaluator_;
  std::optional<MetricsFile> metrics_;
  StepTrace trace_;

  bool first_ = true;         // no step has run yet
  bool pending_ = false;      // updates of the last step wait for the next one
  bool deferred_ = false;     // the plan has such updates
  std::int64_t steps_ = 0;    // seen, skipped ones included
  std::int64_t updates_ = 0;  // applied: what bias correction and schedule count
  std::int64_t tokens_seen_ = 0;
  std::int64_t skipped_ = 0;
  std::vector<double> losses_;
  std::vector<double> step_seconds_;
  TrainReport totals_;
};

}  // namespace parbuckle
