#pragma once

#include "engine/base/graph.h"
#include "engine/model/config.h"

namespace parbuckle {

/// Learned positions, layer norm, one projection for q, k and v, plain MLP.
Graph gpt2_graph(const ModelConfig& config);

}  // namespace parbuckle
