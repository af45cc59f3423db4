#include "tests/parity/opened_generator.h"

#include <utility>

#include "engine/train/hardware_cache.h"
#include "engine/train/weights.h"
#include "offload/plan/passive.h"
#include "offload/plan/planner.h"

namespace parbuckle {
namespace {

constexpr std::int64_t threads = 2;

}  // namespace

Result<std::unique_ptr<OpenedGenerator>> OpenedGenerator::open(const std::string& path,
                                                               const GenerationSizes& sizes) {
  PARBUCKLE_ASSIGN(ModelFolder folder, ModelFolder::open(path));
  std::unique_ptr<OpenedGenerator> generator(new OpenedGenerator(std::move(folder)));
  PARBUCKLE_TRY(generator->plan_and_load(sizes));
  return generator;
}

Status OpenedGenerator::plan_and_load(const GenerationSizes& sizes) {
  const ModelConfig& config = folder_.config();
  PARBUCKLE_ASSIGN(machine_, Machine::create({.threads = threads}));
  PARBUCKLE_ASSIGN(GenerationPrograms programs, lower_generation(config, sizes, *machine_));
  prefill_.lowered = std::move(programs.prefill);
  decode_.lowered = std::move(programs.decode);
  PARBUCKLE_ASSIGN(const Hardware hardware, find_hardware({.threads = threads}, *machine_));
  PARBUCKLE_ASSIGN(prefill_.plan, plan(prefill_.lowered.workload, hardware, {}));
  PARBUCKLE_ASSIGN(decode_.plan,
                   plan_passive(decode_.lowered.workload,
                                hardware,
                                {.workload = &prefill_.lowered.workload, .plan = &prefill_.plan}));
  std::vector<std::string> warnings;
  const std::vector<const Plan*> plans{&prefill_.plan, &decode_.plan};
  PARBUCKLE_ASSIGN(tiers_, Tiers::take(plans, machine_->device(), "", &warnings));
  PARBUCKLE_ASSIGN(first_, LogitsPass::create(prefill_, config, *machine_, tiers_));
  PARBUCKLE_ASSIGN(next_, LogitsPass::create(decode_, config, *machine_, tiers_));
  return load_weights(folder_, prefill_.lowered, first_->executor());
}

Result<std::vector<float>> OpenedGenerator::logits(std::span<const std::int32_t> ids) {
  std::vector<float> out;
  PARBUCKLE_TRY(first_->run(ids, 0, out));
  return out;
}

Result<std::vector<float>> OpenedGenerator::decoded_logits(std::span<const std::int32_t> ids) {
  std::vector<float> out;
  PARBUCKLE_TRY(first_->run(ids.first(1), 0, out));
  for (std::size_t i = 1; i < ids.size(); ++i) {
    PARBUCKLE_TRY(next_->run(ids.subspan(i, 1), static_cast<std::int64_t>(i), out));
  }
  return out;
}

Result<std::vector<std::int32_t>> OpenedGenerator::greedy(std::span<const std::int32_t> prompt,
                                                          std::int64_t count) {
  return continue_prompt(*first_, *next_, prompt, {.max_new_tokens = count}, [](std::int32_t) {});
}

}  // namespace parbuckle
