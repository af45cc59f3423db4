#include "engine/train/generator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "parbuckle/units.h"

#include "engine/data/batch.h"
#include "engine/train/shapes.h"

namespace parbuckle {
namespace {

MicroBatch batch_of(std::span<const std::int32_t> ids, std::int64_t position) {
  MicroBatch batch{.rows = static_cast<std::int64_t>(ids.size()),
                   .tokens = static_cast<std::int64_t>(ids.size()),
                   .sequences = 1};
  batch.token_ids.assign(ids.begin(), ids.end());
  batch.positions.resize(ids.size());
  std::iota(batch.positions.begin(), batch.positions.end(), static_cast<std::int32_t>(position));
  return batch;
}

}  // namespace

Result<GenerationPrograms> lower_generation(const ModelConfig& config,
                                            const GenerationSizes& sizes,
                                            Machine& machine) {
  const std::int64_t rows = round_up(std::max<std::int64_t>(1, sizes.prompt_tokens), row_multiple);
  GenerationPrograms programs;
  PARBUCKLE_ASSIGN(
      programs.prefill,
      lower(
          config, {.phase = Phase::prefill, .shapes = {{rows, sizes.cache_rows}}}, machine.ops()));
  PARBUCKLE_ASSIGN(
      programs.decode,
      lower(config, {.phase = Phase::decode, .shapes = {{1, sizes.cache_rows}}}, machine.ops()));
  return programs;
}

Result<std::unique_ptr<LogitsPass>> LogitsPass::create(const Planned& planned,
                                                       const ModelConfig& config,
                                                       Machine& machine,
                                                       Tiers& tiers) {
  std::unique_ptr<LogitsPass> pass(new LogitsPass(planned));
  PARBUCKLE_ASSIGN(pass->executor_, make_executor(planned, machine, tiers));
  PARBUCKLE_ASSIGN(StepInputs inputs, StepInputs::bind(planned.lowered, config, *pass->executor_));
  pass->inputs_.emplace(std::move(inputs));
  const StepBindings& bindings = planned.lowered.bindings;
  PARBUCKLE_ASSIGN(const auto selected,
                   host_span(planned.lowered, bindings.selected, -1, *pass->executor_));
  PARBUCKLE_ASSIGN(const auto logits,
                   host_span(planned.lowered, bindings.logits, -1, *pass->executor_));
  pass->selected_ = static_cast<std::int32_t*>(static_cast<void*>(selected.data()));
  pass->logits_ = logits;
  return pass;
}

Status LogitsPass::run(std::span<const std::int32_t> ids,
                       std::int64_t position,
                       std::vector<float>& logits) {
  const StepBatch step{.tokens = static_cast<std::int64_t>(ids.size()),
                       .micro_batches = {batch_of(ids, position)}};
  PARBUCKLE_TRY(inputs_->fill(step));
  *selected_ = static_cast<std::int32_t>(ids.size()) - 1;
  PARBUCKLE_TRY(executor_->run_step({.shapes = inputs_->shapes()}, trace_));
  const StepBindings& bindings = planned_.lowered.bindings;
  logits.resize(static_cast<std::size_t>(bindings.logit_rows_begin.back()));
  for (std::size_t part = 0; part + 1 < bindings.logit_rows_begin.size(); ++part) {
    const std::int64_t first = bindings.logit_rows_begin[part];
    const std::int64_t count = bindings.logit_rows_begin[part + 1] - first;
    std::memcpy(logits.data() + first,
                logits_.data() + logit_offset(bindings, 1, 0, first),
                static_cast<std::size_t>(count) * sizeof(float));
  }
  return {};
}

Result<std::vector<std::int32_t>> continue_prompt(
    LogitsPass& prefill,
    LogitsPass& decode,
    std::span<const std::int32_t> prompt,
    const ContinueOptions& options,
    const std::function<void(std::int32_t)>& on_token) {
  std::vector<std::int32_t> found;
  std::vector<float> logits;
  auto position = static_cast<std::int64_t>(prompt.size());
  PARBUCKLE_TRY(prefill.run(prompt, 0, logits));
  while (static_cast<std::int64_t>(found.size()) < options.max_new_tokens) {
    const std::int32_t next = sample(logits, options.sampler, static_cast<std::uint64_t>(position));
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), next) !=
        options.stop_ids.end()) {
      break;
    }
    found.push_back(next);
    on_token(next);
    if (static_cast<std::int64_t>(found.size()) < options.max_new_tokens) {
      PARBUCKLE_TRY(decode.run(std::span(&found.back(), 1), position, logits));
    }
    ++position;
  }
  return found;
}

}  // namespace parbuckle
