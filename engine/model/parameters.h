// Names and shapes of a model's parameters, in the spelling of the Hugging Face folder and in the order of the graph:
// embedding, layers, final norm, head. A tied head has no entry of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/config.h"

namespace parbuckle {

/// A matrix (rows, columns) as stored, row-major; a vector has columns 1.
struct Parameter {
  std::string
      name;  // "model.layers.0.self_attn.q_proj.weight"; gpt2: "transformer.h.0.attn.c_attn.weight"
  std::int64_t rows = 0;
  std::int64_t columns = 1;
  bool vector = false;  // one dimension: norms and biases, never decayed
  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
  friend bool operator==(const Parameter&, const Parameter&) = default;
};

std::vector<Parameter> parameters(const ModelConfig& config);

}  // namespace parbuckle
