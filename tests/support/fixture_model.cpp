#include "tests/support/fixture_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "engine/base/check.h"
#include "engine/checkpoint/model_folder.h"
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

/// Appends a segment; the target of a token is the label of the next one.
void add_segment(TokenRows& rows, const double* ids, const double* labels, std::size_t length) {
  const auto begin = static_cast<std::int32_t>(rows.ids.size());
  for (std::size_t i = 0; i < length; ++i) {
    const double label = i + 1 < length ? labels[i + 1] : -1;
    rows.ids.push_back(static_cast<std::int32_t>(ids[i]));
    rows.positions.push_back(static_cast<std::int32_t>(i));
    rows.segment_begin.push_back(begin);
    rows.targets.push_back(static_cast<std::int32_t>(std::max(-1.0, label)));
  }
}

Tensors weights_of(const ModelFolder& folder) {
  Tensors out;
  for (std::size_t i = 0; i < folder.parameters().size(); ++i) {
    const Parameter& parameter = folder.parameters()[i];
    std::vector<float> values(static_cast<std::size_t>(parameter.elements()));
    const Status status = folder.read(i, 0, parameter.elements(), values.data());
    PARBUCKLE_CHECK(status.ok(), status.message().c_str());
    out[parameter.name].assign(values.begin(), values.end());
  }
  return out;
}

/// The folder's own names of tensors become those of its parameters: "grad.h.0.ln_1.bias", "grad.transformer.h.0.ln_1.bias".
Tensors with_parameter_names(const ModelFolder& folder, Tensors tensors) {
  for (const SavedTensor& saved : folder.saved_tensors()) {
    const std::string& parameter = folder.parameters()[saved.parameter].name;
    for (const std::string prefix :
         {"grad.", "adamw.weight.", "adamw.exp_avg.", "adamw.exp_avg_sq.", "clipped.weight."}) {
      auto node = tensors.extract(prefix + saved.name);
      if (!node.empty()) {
        node.key() = prefix + parameter;
        tensors.insert(std::move(node));
      }
    }
  }
  return tensors;
}

nlohmann::json json_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
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

double gradient_limit(double gradient) {
  return 2e-6 + 1e-4 * std::abs(gradient);
}

double moment_limit(double moment) {
  return 8e-6 + 1e-4 * std::abs(moment);
}

std::int64_t FixtureModel::tokens() const {
  return std::ssize(batch.at("input_ids")) / (fixture_micro_batches * sequences);
}

std::vector<TokenRows> FixtureModel::step_rows() const {
  const auto length = static_cast<std::size_t>(tokens());
  const std::vector<double>& ids = batch.at("input_ids");
  const std::vector<double>& labels = batch.at("labels");
  std::vector<TokenRows> out(fixture_micro_batches);
  for (std::size_t row = 0; row * length < ids.size(); ++row) {
    add_segment(out[row / sequences], &ids[row * length], &labels[row * length], length);
  }
  return out;
}

TokenRows FixtureModel::packed_row() const {
  TokenRows out;
  for (const auto& length : packed_numbers["lengths"]) {
    const std::size_t begin = out.ids.size();
    add_segment(out, &packed.at("input_ids")[begin], &packed.at("labels")[begin], length);
  }
  return out;
}

void FixtureModel::fill_weights(const Lowered& lowered, ResidentRun& run) const {
  for (const ParameterPlacement& parameter : lowered.parameters) {
    run.set_parameter(parameter.name, weights.at(parameter.name));
  }
}

void FixtureModel::fill_step(const Lowered& lowered,
                             ResidentRun& run,
                             const std::vector<TokenRows>& rows,
                             StepScalars step) const {
  const StepBindings& bindings = lowered.bindings;
  std::set<std::int32_t> unique;
  for (const TokenRows& micro_batch : rows) {
    unique.insert(micro_batch.ids.begin(), micro_batch.ids.end());
  }
  const std::vector<std::int32_t> touched(unique.begin(), unique.end());
  std::ptrdiff_t targets = 0;
  for (std::size_t m = 0; m < rows.size(); ++m) {
    const Columns c = columns_of(lowered, run, static_cast<std::int32_t>(m));
    const TokenRows& from = rows[m];
    std::copy(from.ids.begin(), from.ids.end(), c.ids);
    std::copy(from.positions.begin(), from.positions.end(), c.positions);
    std::copy(from.segment_begin.begin(), from.segment_begin.end(), c.segment_begin);
    std::copy(from.targets.begin(), from.targets.end(), c.targets);
    std::transform(from.ids.begin(), from.ids.end(), c.slots, [&touched](std::int32_t id) {
      return std::lower_bound(touched.begin(), touched.end(), id) - touched.begin();
    });
    targets += std::count_if(
        from.targets.begin(), from.targets.end(), [](std::int32_t id) { return id >= 0; });
  }
  if (bindings.inverse_frequencies.valid()) {
    const std::vector<float> frequencies = inverse_frequencies(config);
    std::copy(frequencies.begin(), frequencies.end(), run.as<float>(bindings.inverse_frequencies));
  }
  if (bindings.step.valid()) {
    step.loss_scale = 1 / static_cast<double>(targets);
    *run.as<StepScalars>(bindings.step) = step;
    auto* const header = run.as<TouchedRows>(bindings.touched);
    *header = {.count = std::ssize(touched)};
    std::copy(touched.begin(), touched.end(), reinterpret_cast<std::int32_t*>(header + 1));
  }
}

void FixtureModel::fill_step(const Lowered& lowered, ResidentRun& run, StepScalars step) const {
  fill_step(lowered, run, step_rows(), step);
}

const std::vector<std::string>& parity_models() {
  static const std::vector<std::string> names = {"gpt2_tied",
                                                 "gpt2_wide",
                                                 "llama_bf16",
                                                 "llama_bias",
                                                 "llama_f16",
                                                 "llama_gqa_untied",
                                                 "llama_head_dim",
                                                 "llama_mha_tied",
                                                 "llama_rope_linear",
                                                 "llama_rope_llama3",
                                                 "llama_sharded",
                                                 "mistral_window",
                                                 "qwen2",
                                                 "qwen2_window",
                                                 "qwen3"};
  return names;
}

FixtureModel fixture_model(const std::string& name) {
  const std::filesystem::path path = shared_file("fixtures/models/" + name);
  const auto folder = ModelFolder::open(path.string());
  PARBUCKLE_CHECK(folder.ok(), folder.status().message().c_str());
  return {.config = folder->config(),
          .weights = weights_of(*folder),
          .batch = fixture_tensors(path / "batch.safetensors"),
          .expected = with_parameter_names(*folder, fixture_tensors(path / "expected.safetensors")),
          .packed =
              with_parameter_names(*folder, fixture_tensors(path / "expected_packed.safetensors")),
          .numbers = json_of(path / "expected.json"),
          .packed_numbers = json_of(path / "expected_packed.json")};
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
