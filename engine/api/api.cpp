// The facade: each call puts the parts of engine/train together.
#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "parbuckle/trainer.h"

#include "engine/base/json.h"
#include "engine/checkpoint/inspect.h"
#include "engine/train/eval_run.h"
#include "engine/train/generator.h"
#include "engine/train/hardware_cache.h"
#include "engine/train/planning.h"
#include "engine/train/trainer.h"
#include "engine/train/weights.h"
#include "offload/plan/passive.h"

namespace parbuckle {
namespace {

std::int64_t vocabulary_of(const OpenedModel& model) {
  return model.tokenizer ? model.tokenizer->vocab_size() : 0;
}

Result<Tiers> take_tiers(std::span<const Plan* const> plans,
                         Machine& machine,
                         const MemoryConfig& memory,
                         Observer& observer) {
  std::vector<std::string> warnings;
  PARBUCKLE_ASSIGN(Tiers tiers, Tiers::take(plans, machine.device(), memory.nvme_path, &warnings));
  for (const std::string& warning : warnings) {
    observer.on_note(warning);
  }
  return tiers;
}

/// Holds back bytes of an unfinished UTF-8 sequence, so that what is shown is always text.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, const std::function<void(std::string_view)>& show)
      : tokenizer_(tokenizer), show_(show) {}
  void add(std::int32_t id) {
    ids_.push_back(id);
    const std::string text = tokenizer_.decode(ids_, /*skip_special=*/true);
    constexpr std::string_view unfinished =
        "\xEF\xBF\xBD";  // U+FFFD: the end of a sequence is still to come
    if (!text.ends_with(unfinished) && text.size() > shown_) {
      show_(std::string_view(text).substr(shown_));
      shown_ = text.size();
    }
  }

 private:
  const Tokenizer& tokenizer_;
  const std::function<void(std::string_view)>& show_;
  std::vector<std::int32_t> ids_;
  std::size_t shown_ = 0;
};

Status check_sampling(const GenerateConfig& c) {
  if (c.max_new_tokens < 1) {
    return invalid("--max-new-tokens " + std::to_string(c.max_new_tokens) + ": expected 1 or more");
  }
  if (!(c.temperature >= 0)) {
    return invalid("--temperature " + std::to_string(c.temperature) +
                   ": expected 0 (greedy) or more");
  }
  if (!(c.top_p > 0 && c.top_p <= 1)) {
    return invalid("--top-p " + std::to_string(c.top_p) + ": expected above 0, at most 1");
  }
  if (c.top_k < 0) {
    return invalid("--top-k " + std::to_string(c.top_k) + ": expected 0 (all) or more");
  }
  return {};
}

std::string ids_as_text(std::span<const std::int32_t> ids) {
  std::string text;
  for (const std::int32_t id : ids) {
    text += (text.empty() ? "" : " ") + std::to_string(id);
  }
  return text + "\n";
}

}  // namespace

Result<TrainReport> train(const TrainConfig& config, Observer& observer) {
  if (config.output_dir.empty()) {
    return invalid("--output-dir is missing: the folder for the trained model and its metrics");
  }
  PARBUCKLE_TRY(check_output_folder(config.output_dir, config.overwrite_output_dir));
  PARBUCKLE_ASSIGN(const auto trainer, Trainer::create(config, observer));
  observer.on_plan(trainer->plan_text());
  return trainer->run();
}

Result<std::string> plan(const TrainConfig& config, bool json, Observer& observer) {
  PARBUCKLE_ASSIGN(const auto trainer, Trainer::create(config, observer));
  // A plan names blocks, spans and families by their place in its workload: programs get both.
  return json ? "{\"workload\": " + to_json(trainer->workload()) +
                    ",\n\"plan\": " + to_json(trainer->plan()) + "}\n"
              : trainer->plan_text();
}

Result<EvalRecord> evaluate(const EvalConfig& config, Observer& observer) {
  PARBUCKLE_ASSIGN(const OpenedModel model, open_model(config.model, observer));
  PARBUCKLE_ASSIGN(const Dataset data,
                   open_data(config.data, model, config.dataset, config.max_eval_rows, observer));
  PARBUCKLE_ASSIGN(const auto machine, Machine::create(config.memory));
  Planned planned;
  PARBUCKLE_ASSIGN(
      planned.lowered,
      lower_eval(model.folder.config(), data, config.per_device_eval_batch_size, *machine));
  PARBUCKLE_ASSIGN(
      PlanOnHardware made,
      make_plan(
          {.memory = config.memory, .lowered = planned.lowered, .vocabulary = vocabulary_of(model)},
          *machine,
          observer));
  planned.plan = std::move(made.plan);
  const std::vector<const Plan*> plans{&planned.plan};
  PARBUCKLE_ASSIGN(Tiers tiers, take_tiers(plans, *machine, config.memory, observer));
  PARBUCKLE_ASSIGN(const auto run,
                   EvalRun::create(planned, model.folder.config(), *machine, tiers));
  PARBUCKLE_TRY(load_weights(model.folder, planned.lowered, run->executor()));
  return run->evaluate(data, config.per_device_eval_batch_size);
}

Result<Generation> generate(const GenerateConfig& config,
                            const std::function<void(std::string_view)>& on_text,
                            Observer& observer) {
  PARBUCKLE_TRY(check_sampling(config));
  PARBUCKLE_ASSIGN(const OpenedModel model, open_model(config.model, observer));
  if (!model.tokenizer) {
    return Status(Code::not_found, config.model + ": no tokenizer, so no text can be continued");
  }
  Generation generation;
  PARBUCKLE_ASSIGN(generation.prompt_ids,
                   model.tokenizer->encode(config.prompt, /*add_special_tokens=*/true));
  if (generation.prompt_ids.empty()) {
    return invalid("--prompt is empty: there is nothing to continue");
  }
  const auto prompt_tokens = static_cast<std::int64_t>(generation.prompt_ids.size());
  PARBUCKLE_ASSIGN(const auto machine, Machine::create(config.memory));
  const GenerationSizes sizes{.prompt_tokens = prompt_tokens,
                              .cache_rows = prompt_tokens + config.max_new_tokens};
  PARBUCKLE_ASSIGN(GenerationPrograms programs,
                   lower_generation(model.folder.config(), sizes, *machine));
  Planned prefill{.lowered = std::move(programs.prefill), .plan = {}};
  Planned decode{.lowered = std::move(programs.decode), .plan = {}};
  PARBUCKLE_ASSIGN(PlanOnHardware made,
                   make_plan({.memory = config.memory,
                              .lowered = prefill.lowered,
                              .beside = {&decode.lowered},
                              .vocabulary = vocabulary_of(model)},
                             *machine,
                             observer));
  prefill.plan = std::move(made.plan);
  PARBUCKLE_ASSIGN(decode.plan,
                   plan_passive(decode.lowered.workload,
                                made.hardware,
                                {.workload = &prefill.lowered.workload, .plan = &prefill.plan}));
  PARBUCKLE_TRY(check_plan(decode.lowered.workload, decode.plan));
  const std::vector<const Plan*> plans{&prefill.plan, &decode.plan};
  PARBUCKLE_ASSIGN(Tiers tiers, take_tiers(plans, *machine, config.memory, observer));
  PARBUCKLE_ASSIGN(const auto first,
                   LogitsPass::create(prefill, model.folder.config(), *machine, tiers));
  PARBUCKLE_ASSIGN(const auto next,
                   LogitsPass::create(decode, model.folder.config(), *machine, tiers));
  PARBUCKLE_TRY(load_weights(model.folder, prefill.lowered, first->executor()));

  ContinueOptions options{.sampler = {.temperature = config.temperature,
                                      .top_k = config.top_k,
                                      .top_p = config.top_p,
                                      .seed = static_cast<std::uint64_t>(config.seed)},
                          .max_new_tokens = config.max_new_tokens,
                          .stop_ids = {}};
  if (!config.ignore_eos) {
    options.stop_ids = model.folder.eos_ids();
    options.stop_ids.push_back(model.eos_id);
  }
  const auto begin = std::chrono::steady_clock::now();
  TextStream stream(*model.tokenizer, on_text);
  PARBUCKLE_ASSIGN(
      generation.new_ids,
      continue_prompt(*first, *next, generation.prompt_ids, options, [&stream](std::int32_t id) {
        stream.add(id);
      }));
  generation.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  generation.text = model.tokenizer->decode(generation.new_ids, /*skip_special=*/true);
  return generation;
}

Result<std::string> tokenize(const TokenizeConfig& config) {
  Observer silent;
  std::optional<Tokenizer> tokenizer;
  if (config.model.ends_with(".json")) {
    PARBUCKLE_ASSIGN(tokenizer, Tokenizer::from_json_file(config.model));
    if (!config.data.empty()) {
      return invalid("--data needs a model folder as --model, so that its end token is known");
    }
  }
  if (config.data.empty()) {
    if (!tokenizer) {
      PARBUCKLE_ASSIGN(OpenedModel model, open_model(config.model, silent));
      tokenizer = std::move(model.tokenizer);
    }
    if (!tokenizer) {
      return Status(Code::not_found, config.model + ": no tokenizer");
    }
    PARBUCKLE_ASSIGN(const auto ids, tokenizer->encode(config.text, !config.no_special_tokens));
    return config.debug ? describe_example(*tokenizer, {.ids = ids, .labels = ids})
                        : ids_as_text(ids);
  }
  PARBUCKLE_ASSIGN(const OpenedModel model, open_model(config.model, silent));
  PARBUCKLE_ASSIGN(const Dataset data,
                   open_data(config.data, model, config.dataset, config.rows, silent));
  std::string text;
  for (std::int64_t row = 0; row < std::min(config.rows, data.rows()); ++row) {
    PARBUCKLE_ASSIGN(const std::vector<Example> examples, data.examples(row));
    for (const Example& example : examples) {
      text += config.debug && model.tokenizer ? describe_example(*model.tokenizer, example)
                                              : ids_as_text(example.ids);
    }
  }
  return text;
}

Result<std::string> probe(const MemoryConfig& config, Observer& observer) {
  PARBUCKLE_ASSIGN(const auto machine, Machine::create(config));
  std::string note;
  PARBUCKLE_ASSIGN(Hardware hardware, find_hardware(config, *machine));
  PARBUCKLE_TRY(measure_hardware(
      config, *machine, {}, std::numeric_limits<std::int64_t>::max(), hardware, &note));
  if (!note.empty()) {
    observer.on_note(note);
  }
  return to_json(hardware) + "\n";
}

}  // namespace parbuckle
