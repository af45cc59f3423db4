// The small models of fixtures/models as the tests of lowering use them: configuration, batch and reference values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/graph/lower.h"
#include "engine/model/config.h"
#include "tests/support/resident_run.h"

namespace parbuckle {

inline constexpr std::int32_t fixture_micro_batches = 3;

/// Limits of the fixtures' README for float32.
inline constexpr double logit_limit = 5e-5;
inline constexpr double loss_limit = 1e-5;
inline constexpr double norm_limit = 5e-5;
inline constexpr double weight_limit = 5e-5;
/// A gradient below this is rounding noise; Adam's first update is its sign, so such weights are not compared.
inline constexpr double noise_gradient = 1e-6;
double gradient_limit(double gradient);
/// For a first moment after five steps, or the root of a second one. The README has no limit for these: this is four times the
/// largest error of plain float32 PyTorch (1.8e-6, qwen3), as its other limits are.
double moment_limit(double moment);

/// Rows of one micro-batch without padding, as columns of a batch block.
struct TokenRows {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> segment_begin;
  std::vector<std::int32_t> targets;  // -1: none
};

using Tensors = std::map<std::string, std::vector<double>>;

/// A model folder as the product reads it, beside the reference values. Tensors bear the names of parameters(config),
/// whatever the folder calls them.
struct FixtureModel {
  ModelConfig config;
  Tensors weights;
  Tensors batch;
  Tensors expected;
  Tensors packed;                 // of expected_packed.safetensors, its batch included
  nlohmann::json numbers;         // expected.json
  nlohmann::json packed_numbers;  // expected_packed.json

  /// Length of a row of the batch.
  [[nodiscard]] std::int64_t tokens() const;
  /// Three micro-batches of two rows; each row is a segment of its own.
  [[nodiscard]] std::vector<TokenRows> step_rows() const;
  /// One row of three documents; each document is a segment.
  [[nodiscard]] TokenRows packed_row() const;

  void fill_weights(const Lowered& lowered, ResidentRun& run) const;
  /// Fills batch, step and touched ids of one optimizer step; the loss is scaled by the targets of all rows.
  void fill_step(const Lowered& lowered,
                 ResidentRun& run,
                 const std::vector<TokenRows>& rows,
                 StepScalars step) const;
  void fill_step(const Lowered& lowered, ResidentRun& run, StepScalars step) const;
};

/// Every folder of fixtures/models that the product must compute.
const std::vector<std::string>& parity_models();

/// REQUIRES: the folder is there, and the product opens it.
FixtureModel fixture_model(const std::string& name);

/// Configurations written out, for tests without the reference data: llama_gqa_untied, gpt2_tied, qwen3, llama_bias, mistral_window.
ModelConfig fixture_config(const std::string& name);
ModelConfig smollm2_135m_config();

}  // namespace parbuckle
