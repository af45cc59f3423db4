#include "tests/support/fixture_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "engine/base/check.h"
#include "tests/support/fixture_tensors.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

constexpr std::int64_t sequences = 2;

struct Columns {
  std::int32_t* ids;
  std::int32_t* positions;
  std::int32_t* segment_begin;
  std::int32_t* targets;
  std::int32_t* slots;
};

Columns columns_of(const Lowered& lowered, ResidentRun& run, std::int32_t micro_batch) {
  const std::int64_t rows = lowered.workload.shapes.back().rows;
  std::byte* const base = run.span(lowered.bindings.batch, micro_batch);
  const auto column = [&](BatchColumn which) {
    auto* const first = reinterpret_cast<std::int32_t*>(base + batch_column_offset(which, rows));
    std::fill(first, first + rows, -1);
    return first;
  };
  return {column(BatchColumn::tokens),
          column(BatchColumn::positions),
          column(BatchColumn::segment_begin),
          column(BatchColumn::targets),
          column(BatchColumn::slots)};
}

ModelConfig llama_gqa_untied() {
  return {.model_type = "llama",
          .shape = ModelShape::llama,
          .vocab_size = 101,
          .hidden_size = 32,
          .intermediate_size = 52,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .max_positions = 64,
          .attention_scale = 1 / std::sqrt(8.0F),
          .windows = {0, 0}};
}

ModelConfig gpt2_tied() {
  return {.model_type = "gpt2",
          .shape = ModelShape::gpt2,
          .vocab_size = 97,
          .hidden_size = 48,
          .intermediate_size = 192,
          .layers = 2,
          .heads = 3,
          .kv_heads = 3,
          .head_dim = 16,
          .max_positions = 32,
          .activation = Activation::gelu_tanh,
          .tied = true,
          .attention_scale = 0.25F,
          .windows = {0, 0}};
}

}  // namespace

std::int64_t FixtureModel::tokens() const {
  return std::ssize(batch.at("input_ids")) / (fixture_micro_batches * sequences);
}

void FixtureModel::fill_weights(const Lowered& lowered, ResidentRun& run) const {
  for (const ParameterPlacement& parameter : lowered.parameters) {
    run.set_parameter(parameter.name, weights.at(parameter.name));
  }
}

void FixtureModel::fill_step(const Lowered& lowered, ResidentRun& run, StepScalars step) const {
  const StepBindings& bindings = lowered.bindings;
  const std::vector<double>& input = batch.at("input_ids");
  const std::vector<double>& labels = batch.at("labels");
  const std::set<std::int32_t> unique(input.begin(), input.end());
  const std::vector<std::int32_t> touched(unique.begin(), unique.end());
  const std::int64_t tokens = this->tokens();
  std::int64_t targets = 0;
  for (std::int32_t m = 0; m < fixture_micro_batches; ++m) {
    const Columns c = columns_of(lowered, run, m);
    for (std::int64_t r = 0; r < sequences * tokens; ++r) {
      const auto at = static_cast<std::size_t>(m * sequences * tokens + r);
      c.ids[r] = static_cast<std::int32_t>(input[at]);
      c.positions[r] = static_cast<std::int32_t>(r % tokens);
      c.segment_begin[r] = static_cast<std::int32_t>(r / tokens * tokens);
      c.slots[r] = static_cast<std::int32_t>(
          std::lower_bound(touched.begin(), touched.end(), c.ids[r]) - touched.begin());
      if (r % tokens + 1 < tokens && labels[at + 1] >= 0) {
        c.targets[r] = static_cast<std::int32_t>(labels[at + 1]);
        ++targets;
      }
    }
  }
  if (bindings.inverse_frequencies.valid()) {
    const std::vector<float> frequencies = inverse_frequencies(config);
    std::copy(frequencies.begin(), frequencies.end(), run.as<float>(bindings.inverse_frequencies));
  }
  if (bindings.step.valid()) {
    step.loss_scale = 1 / static_cast<double>(targets);
    *run.as<StepScalars>(bindings.step) = step;
    auto* const header = run.as<TouchedRows>(bindings.touched);
    *header = {.count = static_cast<std::int64_t>(touched.size())};
    std::copy(touched.begin(), touched.end(), reinterpret_cast<std::int32_t*>(header + 1));
  }
}

FixtureModel fixture_model(const std::string& name) {
  const std::filesystem::path folder = shared_file("fixtures/models/" + name);
  FixtureModel model = {.config = fixture_config(name),
                        .weights = fixture_tensors(folder / "model.safetensors"),
                        .batch = fixture_tensors(folder / "batch.safetensors"),
                        .expected = fixture_tensors(folder / "expected.safetensors")};
  std::ifstream file(folder / "expected.json");
  model.numbers = nlohmann::json::parse(file);
  return model;
}

ModelConfig fixture_config(const std::string& name) {
  if (name == "gpt2_tied") {
    return gpt2_tied();
  }
  ModelConfig c = llama_gqa_untied();
  if (name == "qwen3") {
    c.model_type = "qwen3";
    c.vocab_size = 131;
    c.head_dim = 12;
    c.norm_eps = 1e-6F;
    c.rope.theta = 1000000;
    c.tied = true;
    c.qk_norm = true;
    c.attention_scale = 1 / std::sqrt(12.0F);
  } else if (name == "llama_bias") {
    c.vocab_size = 107;
    c.qkv_bias = c.output_bias = c.mlp_bias = true;
  } else if (name == "mistral_window") {
    c.model_type = "mistral";
    c.vocab_size = 109;
    c.hidden_size = 24;
    c.intermediate_size = 40;
    c.layers = 3;
    c.head_dim = 6;
    c.attention_scale = 1 / std::sqrt(6.0F);
    c.windows = {7, 7, 7};
  } else {
    PARBUCKLE_CHECK(name == "llama_gqa_untied", name.c_str());
  }
  return c;
}

ModelConfig smollm2_135m_config() {
  return {.model_type = "llama",
          .shape = ModelShape::llama,
          .vocab_size = 49152,
          .hidden_size = 576,
          .intermediate_size = 1536,
          .layers = 30,
          .heads = 9,
          .kv_heads = 3,
          .head_dim = 64,
          .max_positions = 8192,
          .rope = {.theta = 100000},
          .tied = true,
          .attention_scale = 0.125F,
          .windows = std::vector<std::int32_t>(30, 0)};
}

}  // namespace parbuckle
