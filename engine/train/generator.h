// Continues a prompt: one prefill pass, then one decode pass a token, key/value cache in between, all inside the budget.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/train/sampler.h"
#include "engine/train/set_up.h"
#include "engine/train/step_inputs.h"
#include "engine/train/tiers.h"

namespace parbuckle {

struct GenerationSizes {
  std::int64_t prompt_tokens = 0;
  std::int64_t cache_rows = 0;  // prompt and continuation together at most
};

/// A pass over some tokens that leaves the logits of the last one.
class LogitsPass {
 public:
  static Result<std::unique_ptr<LogitsPass>> create(const Planned& planned,
                                                    const ModelConfig& config,
                                                    Machine& machine,
                                                    Tiers& tiers);

  /// Runs `ids`, the first of them at `position`; copies the logits of the last one, in order of ids, to `logits`.
  Status run(std::span<const std::int32_t> ids, std::int64_t position, std::vector<float>& logits);
  [[nodiscard]] Executor& executor() { return *executor_; }

 private:
  explicit LogitsPass(const Planned& planned) : planned_(planned) {}
  const Planned& planned_;
  std::unique_ptr<Executor> executor_;
  std::optional<StepInputs> inputs_;
  std::int32_t* selected_ = nullptr;
  std::span<const std::byte> logits_;
  StepTrace trace_;
};

/// Programs of both phases; plans are the caller's.
struct GenerationPrograms {
  Lowered prefill;
  Lowered decode;
};
Result<GenerationPrograms> lower_generation(const ModelConfig& config,
                                            const GenerationSizes& sizes,
                                            Machine& machine);

struct ContinueOptions {
  SamplerOptions sampler;
  std::int64_t max_new_tokens = 0;
  std::vector<std::int32_t> stop_ids;  // end tokens; the one that stops is not part of the result
};

/// New ids, each given to `on_token` as it comes.
Result<std::vector<std::int32_t>> continue_prompt(
    LogitsPass& prefill,
    LogitsPass& decode,
    std::span<const std::int32_t> prompt,
    const ContinueOptions& options,
    const std::function<void(std::int32_t)>& on_token);

}  // namespace parbuckle
