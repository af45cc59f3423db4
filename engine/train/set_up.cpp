#include "engine/train/set_up.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "engine/train/model_tokenizer.h"
#include "engine/train/shapes.h"
#include "offload/plan/validate.h"

namespace parbuckle {
namespace {

void note_counts(const std::string& path, const DataReport& report, Observer& observer) {
  observer.on_note(path + ": " + std::to_string(report.read.records) + " records, " +
                   std::to_string(report.rows) + " rows, " + std::to_string(report.tokens) +
                   " tokens, " + std::to_string(report.targets) + " targets, longest row " +
                   std::to_string(report.longest));
  const auto say = [&](std::int64_t count, const char* what) {
    if (count > 0) {
      observer.on_note("  " + std::to_string(count) + " " + what);
    }
  };
  say(report.cut, "records cut to --max-length");
  say(report.dropped, "records dropped: longer than --max-length");
  say(report.tokens_lost, "tokens lost by cutting and dropping");
  say(report.no_target, "records left out: nothing in them is predicted");
  say(report.read.skipped, "records skipped: cannot be read");
  say(report.read.replaced, "invalid characters replaced by U+FFFD");
  say(report.read.lost_bytes, "bytes that no token covers");
  say(report.read.start_token_twice,
      "records begin with the start token that the tokenizer adds as well");
}

}  // namespace

Result<OpenedModel> open_model(const std::string& path, Observer& observer) {
  if (path.empty()) {
    return invalid(
        "--model is missing: a folder with config.json and safetensors, or with one GGUF file");
  }
  PARBUCKLE_ASSIGN(ModelFolder folder, ModelFolder::open(path));
  for (const std::string& note : folder.notes()) {
    observer.on_note(note);
  }
  OpenedModel model{.folder = std::move(folder), .tokenizer = std::nullopt};
  auto tokenizer = model_tokenizer(model.folder);
  if (tokenizer.ok()) {
    model.tokenizer = std::move(tokenizer).value();
    model.eos_id = model.tokenizer->special_ids().eos;
  } else if (tokenizer.status().code() != Code::not_found) {
    return tokenizer.status();
  }
  if (model.eos_id < 0) {
    model.eos_id = model.folder.config().eos_id;
  }
  return model;
}

Result<Dataset> open_data(const std::string& path,
                          const OpenedModel& model,
                          const DataConfig& config,
                          std::int64_t most_rows,
                          Observer& observer) {
  if (path.empty()) {
    return invalid("--data is missing: a .jsonl or .txt file");
  }
  const DatasetOptions options{
      .max_length = config.max_length,
      .packing = config.packing,
      .max_rows = most_rows,
      .work_directory = std::filesystem::temp_directory_path().string(),
      .records = {.prompt_field = config.prompt_field,
                  .completion_field = config.completion_field,
                  .replace_invalid = config.replace_invalid,
                  .vocab_rows = model.folder.config().vocab_size,
                  .rule = {.eos_id = model.eos_id, .train_on_prompt = config.train_on_prompt}}};
  PARBUCKLE_ASSIGN(Dataset data,
                   Dataset::open(path, model.tokenizer ? &*model.tokenizer : nullptr, options));
  const ModelConfig& c = model.folder.config();
  if (c.shape == ModelShape::gpt2 && data.report().longest > c.max_positions) {
    return invalid(path + ": a row has " + std::to_string(data.report().longest) +
                   " tokens, the model has " + std::to_string(c.max_positions) +
                   " positions; --max-length " + std::to_string(c.max_positions) + " cuts");
  }
  note_counts(path, data.report(), observer);
  return data;
}

Result<std::unique_ptr<Executor>> make_executor(const Planned& planned,
                                                Machine& machine,
                                                Tiers& tiers) {
  return Executor::create({.plan = &planned.plan,
                           .workload = &planned.lowered.workload,
                           .programs = planned.lowered.programs,
                           .op_table = machine.ops(),
                           .device = &machine.device(),
                           .host_ops = machine.host() ? machine.host_ops() : OpTable{},
                           .host_device = machine.host(),
                           .arena = &*tiers.arena,
                           .device_memory = tiers.device.get(),
                           .pool = tiers.pool.get()});
}

Result<std::vector<ShapeKey>> shapes_of(const Loader& loader) {
  constexpr std::size_t few = 16;
  PARBUCKLE_ASSIGN(const std::vector<std::int64_t> rows, loader.micro_batch_rows());
  if (rows.empty()) {
    return invalid("the data has no rows");
  }
  if (rows.size() > few) {
    return micro_batch_shapes(rows.back());
  }
  std::vector<ShapeKey> shapes;
  for (const std::int64_t count : rows) {
    shapes.push_back({.rows = count});
  }
  return shapes;
}

Result<Forced> forced_choices(const TrainConfig& config) {
  Forced forced;
  const std::int64_t all = config.gradient_accumulation_steps;
  if (config.order == "layer-major") {
    forced.group = static_cast<std::int32_t>(all);
  } else if (config.order == "micro-batch-major") {
    forced.group = 1;
  } else if (!config.order.empty()) {
    std::int32_t group = 0;
    const char* const end = config.order.data() + config.order.size();
    const auto parsed = std::from_chars(config.order.data(), end, group);
    if (parsed.ec != std::errc() || parsed.ptr != end || group < 1 || group > all) {
      return invalid("--order '" + config.order +
                     "': expected layer-major, micro-batch-major or 1 to " + std::to_string(all) +
                     " micro-batches per visit");
    }
    forced.group = group;
  }
  for (const ActivationPolicy policy :
       {ActivationPolicy::keep, ActivationPolicy::spill, ActivationPolicy::recompute}) {
    if (config.activations == to_string(policy)) {
      forced.activations = policy;
    }
  }
  if (!config.activations.empty() && !forced.activations) {
    return invalid("--activations '" + config.activations + "': expected keep, spill or recompute");
  }
  for (const Window window : {Window::after, Window::fused, Window::lazy}) {
    if (config.optimizer_window == to_string(window)) {
      forced.window = window;
    }
  }
  if (!config.optimizer_window.empty() && !forced.window) {
    return invalid("--optimizer-window '" + config.optimizer_window +
                   "': expected after, fused or lazy");
  }
  if (config.optimizer_device == "cpu" || config.optimizer_device == "device") {
    forced.updates = config.optimizer_device == "cpu" ? LaneKind::host_compute : LaneKind::compute;
  } else if (!config.optimizer_device.empty() && config.optimizer_device != "auto") {
    return invalid("--optimizer-device '" + config.optimizer_device +
                   "': expected auto, device or cpu");
  }
  return forced;
}

Status check_plan(const Workload& workload, const Plan& plan) {
  const std::vector<std::string> faults = validate(workload, plan);
  if (faults.empty()) {
    return {};
  }
  return internal_error("the plan is not sound: " + faults.front() + " (" +
                        std::to_string(faults.size()) + " faults)");
}

}  // namespace parbuckle
