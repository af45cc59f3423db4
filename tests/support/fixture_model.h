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

/// Three micro-batches of two rows; each row is a segment of its own, padded to 64 rows in all.
struct FixtureModel {
  ModelConfig config;
  std::map<std::string, std::vector<double>> weights;
  std::map<std::string, std::vector<double>> batch;
  std::map<std::string, std::vector<double>> expected;
  nlohmann::json numbers;  // expected.json

  /// Length of a row.
  [[nodiscard]] std::int64_t tokens() const;

  /// Fills batch, step and touched ids of one optimizer step.
  void fill_step(const Lowered& lowered, ResidentRun& run, StepScalars step) const;
  void fill_weights(const Lowered& lowered, ResidentRun& run) const;
};

/// REQUIRES: the folder is there, and fixture_config knows it.
FixtureModel fixture_model(const std::string& name);

/// What config.json of the folder says, written out here so that these tests need no reader of it.
ModelConfig fixture_config(const std::string& name);
ModelConfig smollm2_135m_config();

}  // namespace parbuckle
