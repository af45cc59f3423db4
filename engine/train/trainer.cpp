#include "engine/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "parbuckle/units.h"

#include "engine/train/comparison.h"
#include "engine/train/planning.h"
#include "engine/train/shapes.h"
#include "engine/train/weights.h"
#include "offload/plan/passive.h"
#include "offload/plan/text.h"
#include "offload/probe/process_memory.h"

namespace parbuckle {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Status check_numbers(const TrainConfig& c) {
  const auto wrong = [](const char* option, const std::string& found, const char* allowed) {
    return invalid("--" + std::string(option) + " " + found + ": expected " + allowed);
  };
  if (c.dtype != "float32") {
    return wrong("dtype", c.dtype, "float32");
  }
  if (c.per_device_train_batch_size < 1) {
    return wrong(
        "per-device-train-batch-size", std::to_string(c.per_device_train_batch_size), "1 or more");
  }
  if (c.gradient_accumulation_steps < 1 || c.gradient_accumulation_steps > 4096) {
    return wrong(
        "gradient-accumulation-steps", std::to_string(c.gradient_accumulation_steps), "1 to 4096");
  }
  if (c.dataset.max_length < 2) {
    return wrong("max-length", std::to_string(c.dataset.max_length), "2 or more tokens");
  }
  if (!(c.learning_rate >= 0) || !std::isfinite(c.learning_rate)) {
    return wrong("learning-rate", std::to_string(c.learning_rate), "a number from 0");
  }
  if (!(c.max_grad_norm >= 0) || !std::isfinite(c.max_grad_norm)) {
    return wrong(
        "max-grad-norm", std::to_string(c.max_grad_norm), "a number from 0 (0: no clipping)");
  }
  if (!(c.adam_beta1 >= 0 && c.adam_beta1 < 1 && c.adam_beta2 >= 0 && c.adam_beta2 < 1)) {
    return wrong("adam-beta1/2",
                 std::to_string(c.adam_beta1) + ", " + std::to_string(c.adam_beta2),
                 "from 0 to below 1");
  }
  if (c.logging_steps < 1) {
    return wrong("logging-steps", std::to_string(c.logging_steps), "1 or more");
  }
  return {};
}

Result<Schedule> schedule_of(const TrainConfig& c, std::int64_t total_steps) {
  PARBUCKLE_ASSIGN(const ScheduleKind kind, schedule_kind_from_string(c.lr_scheduler_type));
  const auto from_ratio =
      static_cast<std::int64_t>(std::ceil(c.warmup_ratio * static_cast<double>(total_steps)));
  return Schedule{.kind = kind,
                  .peak = c.learning_rate,
                  .warmup_steps = c.warmup_steps >= 0 ? c.warmup_steps : from_ratio,
                  .total_steps = total_steps,
                  .warmup_from_zero = c.warmup_from_zero};
}

/// Updates that a plan runs before its first backward task apply the gradients of the step before.
bool defers_updates(const Plan& plan) {
  for (const Task& task : plan.tasks) {
    if (task.kind == TaskKind::update) {
      return true;
    }
    if (task.kind == TaskKind::backward) {
      return false;
    }
  }
  return false;
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::create(const TrainConfig& config, Observer& observer) {
  PARBUCKLE_TRY(check_numbers(config));
  PARBUCKLE_TRY(save_type_from_string(config.save_dtype).status());
  PARBUCKLE_ASSIGN(OpenedModel model, open_model(config.model, observer));
  std::unique_ptr<Trainer> trainer(new Trainer(config, observer, std::move(model)));
  PARBUCKLE_TRY(trainer->open_training_data());
  PARBUCKLE_ASSIGN(trainer->machine_, Machine::create(config.memory));
  PARBUCKLE_TRY(trainer->lower_phases());
  PARBUCKLE_TRY(trainer->make_plans());
  return trainer;
}

Status Trainer::open_training_data() {
  PARBUCKLE_ASSIGN(Dataset data, open_data(config_.data, model_, config_.dataset, 0, observer_));
  data_.emplace(std::move(data));
  if (!config_.eval_data.empty()) {
    PARBUCKLE_ASSIGN(
        Dataset held_out,
        open_data(config_.eval_data, model_, config_.dataset, config_.max_eval_rows, observer_));
    eval_data_.emplace(std::move(held_out));
  }
  PARBUCKLE_ASSIGN(Loader loader,
                   Loader::create(*data_,
                                  {.batch_rows = config_.per_device_train_batch_size,
                                   .accumulation = config_.gradient_accumulation_steps,
                                   .epochs = config_.num_train_epochs,
                                   .max_steps = config_.max_steps,
                                   .shuffle = config_.shuffle,
                                   .seed = static_cast<std::uint64_t>(config_.seed)}));
  loader_.emplace(std::move(loader));
  PARBUCKLE_ASSIGN(schedule_, schedule_of(config_, loader_->total_steps()));
  return {};
}

Status Trainer::lower_phases() {
  PARBUCKLE_ASSIGN(const std::vector<ShapeKey> shapes, shapes_of(*loader_));
  PARBUCKLE_ASSIGN(
      train_.lowered,
      lower(model_.folder.config(),
            {.phase = Phase::train,
             .micro_batches = static_cast<std::int32_t>(config_.gradient_accumulation_steps),
             .shapes = shapes,
             .clipping = config_.max_grad_norm > 0},
            machine_->ops()));
  train_.lowered.workload.signature += machine_->signature() + "\n";
  if (eval_data_) {
    PARBUCKLE_ASSIGN(
        Lowered lowered,
        lower_eval(
            model_.folder.config(), *eval_data_, config_.per_device_eval_batch_size, *machine_));
    eval_.emplace(Planned{.lowered = std::move(lowered), .plan = {}});
  }
  return {};
}

Status Trainer::make_plans() {
  PlanRequest request{.memory = config_.memory,
                      .lowered = train_.lowered,
                      .vocabulary = model_.tokenizer ? model_.tokenizer->vocab_size() : 0,
                      .time_programs = true};
  if (eval_) {
    request.beside.push_back(&eval_->lowered);
  }
  PARBUCKLE_ASSIGN(request.forced, forced_choices(config_));
  PARBUCKLE_ASSIGN(PlanOnHardware made, make_plan(request, *machine_, observer_));
  train_.plan = std::move(made.plan);
  hardware_ = std::move(made.hardware);
  if (eval_) {
    PARBUCKLE_ASSIGN(eval_->plan,
                     plan_passive(eval_->lowered.workload,
                                  hardware_,
                                  {.workload = &train_.lowered.workload, .plan = &train_.plan}));
    PARBUCKLE_TRY(check_plan(eval_->lowered.workload, eval_->plan));
  }
  deferred_ = defers_updates(train_.plan);
  return {};
}

std::string Trainer::plan_text() const {
  const double steps = static_cast<double>(loader_->total_steps());
  return parbuckle::plan_text(train_.lowered.workload, train_.plan) +
         "whole run: " + std::to_string(loader_->total_steps()) + " steps, " +
         format_seconds(steps * train_.plan.predicted.step_s) + ", " +
         format_size(loader_->total_steps() *
                     sum_over_roles(train_.plan.bytes, &RoleBytes::written)) +
         " written to the drive\n";
}

Result<TrainReport> Trainer::run() {
  const auto begin = Clock::now();
  PARBUCKLE_TRY(open_output());
  PARBUCKLE_TRY(take_memory());
  PARBUCKLE_TRY(load_weights(model_.folder, train_.lowered, *executor_));
  PARBUCKLE_TRY(evaluate_now());
  PARBUCKLE_TRY(train_steps());
  PARBUCKLE_TRY(flush_pending());
  PARBUCKLE_TRY(evaluate_now());
  PARBUCKLE_TRY(save());
  totals_.train_runtime = seconds_since(begin);
  return report();
}

Status Trainer::open_output() {
  std::error_code error;
  std::filesystem::create_directories(config_.output_dir, error);
  if (error) {
    return io_error(config_.output_dir + ": cannot be made: " + error.message());
  }
  const std::filesystem::path folder(config_.output_dir);
  PARBUCKLE_ASSIGN(MetricsFile settings, MetricsFile::create(folder / "parbuckle_config.json"));
  PARBUCKLE_TRY(settings.write(to_json(config_)));
  PARBUCKLE_ASSIGN(MetricsFile metrics, MetricsFile::create(folder / "metrics.jsonl"));
  metrics_.emplace(std::move(metrics));
  return {};
}

Status Trainer::take_memory() {
  std::vector<std::string> warnings;
  std::vector<const Plan*> plans{&train_.plan};
  if (eval_) {
    plans.push_back(&eval_->plan);
  }
  PARBUCKLE_ASSIGN(tiers_,
                   Tiers::take(plans, machine_->device(), config_.memory.nvme_path, &warnings));
  for (const std::string& warning : warnings) {
    observer_.on_note(warning);
  }
  if (tiers_.pool) {
    observer_.on_note("drive: " + format_size(tiers_.pool->bytes()) + " in " +
                      config_.memory.nvme_path + " through " + std::string(tiers_.pool->engine()));
  }
  PARBUCKLE_ASSIGN(executor_, make_executor(train_, *machine_, tiers_));
  PARBUCKLE_ASSIGN(StepInputs inputs,
                   StepInputs::bind(train_.lowered, model_.folder.config(), *executor_));
  inputs_.emplace(std::move(inputs));
  if (eval_) {
    PARBUCKLE_ASSIGN(evaluator_,
                     EvalRun::create(*eval_, model_.folder.config(), *machine_, tiers_));
  }
  return {};
}

Status Trainer::train_steps() {
  while (true) {
    PARBUCKLE_ASSIGN(const std::optional<StepBatch> batch, loader_->next());
    if (!batch) {
      return {};
    }
    PARBUCKLE_TRY(one_step(*batch));
    const bool last = steps_ == loader_->total_steps();
    if (config_.eval_steps > 0 && steps_ % config_.eval_steps == 0 && !last) {
      PARBUCKLE_TRY(flush_pending());
      PARBUCKLE_TRY(evaluate_now());
    }
  }
}

StepScalars Trainer::scalars_for(const StepBatch& batch) const {
  return {.learning_rate = static_cast<float>(learning_rate(schedule_, updates_)),
          .beta1 = static_cast<float>(config_.adam_beta1),
          .beta2 = static_cast<float>(config_.adam_beta2),
          .epsilon = static_cast<float>(config_.adam_epsilon),
          .weight_decay = static_cast<float>(config_.weight_decay),
          .max_norm = static_cast<float>(config_.max_grad_norm),
          .loss_scale = 1.0 / static_cast<double>(batch.targets),
          .step = updates_ + 1};
}

Status Trainer::one_step(const StepBatch& batch) {
  ++steps_;
  const auto begin = Clock::now();
  StepRecord record{
      .step = steps_,
      .epoch = static_cast<double>(steps_) / static_cast<double>(loader_->steps_per_epoch()),
      .learning_rate = learning_rate(schedule_, updates_),
      .tokens = batch.tokens,
      .targets = batch.targets};
  if (batch.targets == 0) {  // nothing to learn: no update, and the schedule stands still
    record.skipped = true;
    return record_step(batch, record);
  }
  PARBUCKLE_TRY(inputs_->fill(batch));
  inputs_->fill_scalars(scalars_for(batch), batch.touched);
  // A loss that is not finite drops the step whole. Updates that this plan runs in the same step ask here; those that it
  // defers to the next step are left out there.
  const StepInput input{.shapes = inputs_->shapes(),
                        .mode = deferred_ && !pending_ ? StepMode::without_pending : StepMode::full,
                        .apply_updates = [this] {
                          return std::isfinite(inputs_->losses().loss) && norm_allows_update();
                        }};
  PARBUCKLE_TRY(executor_->run_step(input, trace_));
  record.step_seconds = seconds_since(begin);
  const StepFacts facts{.shapes = inputs_->shapes(), .first = std::exchange(first_, false)};
  PARBUCKLE_TRY(compare_with_plan(train_, hardware_, facts, trace_, record));
  record.to_device_bytes = sum_over_roles(trace_.bytes, &RoleBytes::down);
  record.from_device_bytes = sum_over_roles(trace_.bytes, &RoleBytes::up);
  PARBUCKLE_ASSIGN(const bool applied, judge_step(batch, record));
  pending_ = applied && deferred_;
  updates_ += applied ? 1 : 0;
  record.skipped = !applied;
  return record_step(batch, record);
}

/// With clipping the norm is known before any update; without, a gradient that is not finite stops the run afterwards.
bool Trainer::norm_allows_update() const {
  return config_.max_grad_norm <= 0 || std::isfinite(inputs_->gradient_norm());
}

Result<bool> Trainer::judge_step(const StepBatch& batch, StepRecord& record) {
  record.loss = inputs_->losses().loss / static_cast<double>(batch.targets);
  record.grad_norm = inputs_->gradient_norm();
  if (!std::isfinite(record.loss)) {
    return false;
  }
  if (std::isfinite(record.grad_norm)) {
    return true;
  }
  if (config_.max_grad_norm > 0) {
    return false;
  }
  return Status(Code::data_corrupt,
                "step " + std::to_string(steps_) + ": the gradient of " +
                    inputs_->gradient_not_finite() +
                    " is not finite and there is no clipping (--max-grad-norm 0) to "
                    "drop the step; nothing was saved");
}

Status Trainer::record_step(const StepBatch& batch, const StepRecord& measured) {
  StepRecord record = measured;
  tokens_seen_ += batch.tokens;
  record.num_input_tokens_seen = tokens_seen_;
  skipped_ += record.skipped ? 1 : 0;
  if (record.step_seconds > 0) {
    losses_.push_back(record.loss);
    step_seconds_.push_back(record.step_seconds);
    totals_.nvme_read_bytes += record.nvme_read_bytes;
    totals_.nvme_written_bytes += record.nvme_written_bytes;
    totals_.to_device_bytes += record.to_device_bytes;
    totals_.from_device_bytes += record.from_device_bytes;
    totals_.planned_to_device_bytes += sum_over_roles(train_.plan.bytes, &RoleBytes::down);
    totals_.planned_from_device_bytes += sum_over_roles(train_.plan.bytes, &RoleBytes::up);
    totals_.measured_device_bytes =
        std::max(totals_.measured_device_bytes, trace_.device_arena_peak_bytes);
    totals_.planned_nvme_read_bytes += record.planned_nvme_read_bytes;
    totals_.planned_nvme_written_bytes += record.planned_nvme_written_bytes;
    totals_.measured_arena_peak_bytes =
        std::max(totals_.measured_arena_peak_bytes, record.arena_peak_bytes);
    totals_.planned_step_seconds += record.predicted_step_seconds;
  }
  PARBUCKLE_TRY(metrics_->write(to_json_line(record)));
  observer_.on_step(record, loader_->total_steps());
  return {};
}

Status Trainer::flush_pending() {
  if (!pending_) {
    return {};
  }
  pending_ = false;
  return executor_->run_step({.shapes = inputs_->shapes(), .mode = StepMode::pending_only}, trace_);
}

Status Trainer::evaluate_now() {
  if (!evaluator_) {
    return {};
  }
  PARBUCKLE_ASSIGN(EvalRecord record,
                   evaluator_->evaluate(*eval_data_, config_.per_device_eval_batch_size));
  record.step = steps_;
  PARBUCKLE_TRY(metrics_->write(to_json_line(record)));
  observer_.on_eval(record);
  return {};
}

Status Trainer::save() {
  SaveOptions options{.folder = config_.output_dir, .overwrite = true};
  PARBUCKLE_ASSIGN(options.type, save_type_from_string(config_.save_dtype));
  if (model_.folder.is_gguf() && model_.tokenizer) {
    options.texts = {{"tokenizer.json", model_.tokenizer->to_json()},
                     {"tokenizer_config.json", model_.tokenizer->config_to_json()}};
  }
  return save_model(
             model_.folder, options, weight_source(model_.folder, train_.lowered, *executor_))
      .status();
}

Result<TrainReport> Trainer::report() {
  const double all_steps = std::accumulate(step_seconds_.begin(), step_seconds_.end(), 0.0);
  const auto counted = static_cast<double>(std::max<std::size_t>(1, losses_.size()));
  totals_.steps = steps_;
  totals_.skipped_steps = skipped_;
  totals_.train_loss = std::accumulate(losses_.begin(), losses_.end(), 0.0) / counted;
  totals_.tokens_per_second = all_steps > 0 ? static_cast<double>(tokens_seen_) / all_steps : 0;
  totals_.planned_step_seconds /= counted;
  totals_.measured_step_seconds = step_seconds_.size() > 1
                                      ? median({step_seconds_.begin() + 1, step_seconds_.end()})
                                      : all_steps;
  totals_.planned_host_bytes =
      train_.plan.host_arena_bytes + train_.plan.budgets.host_reserve_bytes;
  totals_.planned_device_bytes = train_.plan.device_arena_bytes;
  totals_.planned_arena_bytes = train_.plan.host_arena_bytes;
  totals_.output_dir = config_.output_dir;
  PARBUCKLE_ASSIGN(totals_.state_hash, state_hash(train_.lowered, *executor_, losses_));
  PARBUCKLE_ASSIGN(const ProcessMemory memory, process_memory());
  totals_.measured_peak_rss_bytes = memory.peak_bytes;
  PARBUCKLE_TRY(metrics_->write(to_json_line(totals_)));
  return totals_;
}

}  // namespace parbuckle
