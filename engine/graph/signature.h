// The part of the numeric signature that a model and its lowering decide.
#pragma once

#include <string>

#include "engine/graph/lower.h"
#include "engine/model/config.h"

namespace parbuckle {

/// One "key value" per line: the model, shapes of the micro-batches, dtype, and every size that decides an order of sums.
/// The trainer adds data, seed, threads, library and instruction set.
std::string signature_of(const ModelConfig& config, const LowerOptions& options);

}  // namespace parbuckle
