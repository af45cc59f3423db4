// A model's parameters between files and their homes in the tiers, streamed in pieces of 1 MiB.
#pragma once

#include <span>
#include <string>

#include "parbuckle/status.h"

#include "engine/checkpoint/model_folder.h"
#include "engine/checkpoint/model_writer.h"
#include "engine/graph/lower.h"
#include "offload/run/executor.h"

namespace parbuckle {

/// Fills every weight from the model's files. Fails on a value that is not finite, naming tensor and element.
Status load_weights(const ModelFolder& model, const Lowered& lowered, Executor& executor);

/// For save_model(): weights as they are at their homes. The arguments must outlive it. Pending updates are the caller's.
ParameterSource weight_source(const ModelFolder& model, const Lowered& lowered, Executor& executor);

/// XXH3-128 as hex digits over weights and both moments (parameter by parameter, as f32, no padding) and the losses of the
/// steps (as f64): equal training, equal text, wherever the bytes live.
Result<std::string> state_hash(const Lowered& lowered,
                               Executor& executor,
                               std::span<const double> losses);

}  // namespace parbuckle
