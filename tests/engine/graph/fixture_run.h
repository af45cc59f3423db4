// What the parity tests do with a fixture model: lower it, run it on the operators under test, compare.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/lower.h"
#include "tests/support/fixture_model.h"
#include "tests/support/resident_run.h"

namespace parbuckle {

/// Fails the test where lowering is refused.
Lowered lowered_for_test(const ModelConfig& config, const LowerOptions& options);

/// `alternative` in every unit that has several.
Choice choice_for(const Lowered& l, std::int32_t alternative, std::int32_t group, Window window);

/// Sum over all micro-batches / number of their targets.
double loss_of(const Lowered& l, ResidentRun& run);

/// Compares loss, norm and every gradient of a step without a learning rate.
void expect_gradients(const Lowered& l,
                      ResidentRun& run,
                      const Tensors& expected,
                      const nlohmann::json& numbers);

/// Logits of every row, in order of rows and ids, by the forward of training (not by prefill): rows of several segments included.
std::vector<float> forward_logits(const FixtureModel& model, const TokenRows& rows);
void expect_logits(const std::vector<float>& found, const std::vector<double>& expected);

/// Name of a parameterised test.
inline constexpr auto model_name = [](const auto& given) { return given.param; };

}  // namespace parbuckle
