// Picks the next token from logits. Random draws are keyed by (seed, position), so a continuation can be repeated.
#pragma once

#include <cstdint>
#include <span>

namespace parbuckle {

struct SamplerOptions {
  double temperature = 0;  // 0: the likeliest token, the lowest id on a tie
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;        // smallest set of the likeliest tokens whose probability reaches this
  std::uint64_t seed = 42;
};

/// Top-k is applied first, then temperature, then top-p, as transformers' default chain does up to equal probabilities.
/// REQUIRES: logits not empty. NaN logits are never picked unless all are NaN.
std::int32_t sample(std::span<const float> logits,
                    const SamplerOptions& options,
                    std::uint64_t position);

}  // namespace parbuckle
