// A model opened, planned and loaded as `generate` does it, continued from ids: the models of the fixtures have no tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/checkpoint/model_folder.h"
#include "engine/train/generator.h"
#include "engine/train/machine.h"
#include "engine/train/set_up.h"
#include "engine/train/tiers.h"

namespace parbuckle {

class OpenedGenerator {
 public:
  /// `path`: whatever ModelFolder::open takes. Everything stays in memory.
  static Result<std::unique_ptr<OpenedGenerator>> open(const std::string& path,
                                                       const GenerationSizes& sizes);

  /// Logits of the last of `ids`, by one prefill pass.
  Result<std::vector<float>> logits(std::span<const std::int32_t> ids);
  /// Logits of the last of `ids`: the first of them by prefill, the others by decode passes, one each.
  Result<std::vector<float>> decoded_logits(std::span<const std::int32_t> ids);
  /// `count` new ids, the likeliest each time.
  Result<std::vector<std::int32_t>> greedy(std::span<const std::int32_t> prompt,
                                           std::int64_t count);

 private:
  explicit OpenedGenerator(ModelFolder folder) : folder_(std::move(folder)) {}
  Status plan_and_load(const GenerationSizes& sizes);

  ModelFolder folder_;
  std::unique_ptr<Machine> machine_;
  Planned prefill_;
  Planned decode_;
  Tiers tiers_;
  std::unique_ptr<LogitsPass> first_;
  std::unique_ptr<LogitsPass> next_;
};

}  // namespace parbuckle
