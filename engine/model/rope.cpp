#include <cmath>
#include <cstddef>
#include <numbers>

#include "engine/model/config.h"

namespace parbuckle {
namespace {

/// llama3: long wavelengths are divided by the factor, short ones kept, those between blended linearly in frequency.
double llama3_scaled(double frequency, const RopeConfig& rope) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(rope.original_positions);
  if (wavelength < original / rope.high_freq_factor) {
    return frequency;
  }
  if (wavelength > original / rope.low_freq_factor) {
    return frequency / rope.factor;
  }
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<float> inverse_frequencies(const ModelConfig& config) {
  std::vector<float> out(static_cast<std::size_t>(config.head_dim / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    double frequency = std::pow(config.rope.theta,
                                -2 * static_cast<double>(i) / static_cast<double>(config.head_dim));
    switch (config.rope.type) {
      case RopeType::none:
        break;
      case RopeType::linear:
        frequency /= config.rope.factor;
        break;
      case RopeType::llama3:
        frequency = llama3_scaled(frequency, config.rope);
        break;
    }
    out[i] = static_cast<float>(frequency);
  }
  return out;
}

}  // namespace parbuckle
