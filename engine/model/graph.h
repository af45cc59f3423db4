// From a model's configuration to its forward graph.
#pragma once

#include "engine/base/graph.h"
#include "engine/model/config.h"

namespace parbuckle {

/// Forward ops of the model: embedding, then for each layer its attention half and its MLP half, then the head.
Graph model_graph(const ModelConfig& config);

}  // namespace parbuckle
