#pragma once

#include "engine/base/graph.h"
#include "engine/model/config.h"

namespace parbuckle {

/// Rotary positions, RMS norm, gated MLP: llama, mistral, qwen2, qwen3.
Graph llama_graph(const ModelConfig& config);

}  // namespace parbuckle
