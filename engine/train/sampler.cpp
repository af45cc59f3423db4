#include "engine/train/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "engine/base/rng.h"

namespace parbuckle {
namespace {

bool likelier(float a, float b) {
  return a > b || (std::isnan(b) && !std::isnan(a));
}

std::int32_t likeliest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    if (likelier(logits[i], logits[best])) {
      best = i;
    }
  }
  return static_cast<std::int32_t>(best);
}

/// Ids of the `k` likeliest tokens, likeliest first, lower ids first among equals.
std::vector<std::int32_t> ranked(std::span<const float> logits, std::size_t k) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return likelier(x, y) || (!likelier(y, x) && a < b);
  };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k), ids.end(), before);
  ids.resize(k);
  return ids;
}

}  // namespace

std::int32_t sample(std::span<const float> logits,
                    const SamplerOptions& options,
                    std::uint64_t position) {
  if (options.temperature <= 0) {
    return likeliest(logits);
  }
  const std::size_t all = logits.size();
  const std::size_t k =
      options.top_k > 0 ? std::min(all, static_cast<std::size_t>(options.top_k)) : all;
  const std::vector<std::int32_t> ids = ranked(logits, k);
  const double top = static_cast<double>(logits[static_cast<std::size_t>(ids[0])]);
  std::vector<double> weight(k);
  double total = 0;
  for (std::size_t i = 0; i < k; ++i) {
    const double logit = static_cast<double>(logits[static_cast<std::size_t>(ids[i])]);
    weight[i] = std::isnan(logit) ? 0 : std::exp((logit - top) / options.temperature);
    total += weight[i];
  }
  double kept = 0;
  std::size_t count = 0;
  while (count < k && (count == 0 || kept < options.top_p * total)) {
    kept += weight[count++];
  }
  double draw = uniform(options.seed, RandomPurpose::sampling, position, 0) * kept;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    draw -= weight[i];
    if (draw < 0) {
      return ids[i];
    }
  }
  return ids[count - 1];
}

}  // namespace parbuckle
