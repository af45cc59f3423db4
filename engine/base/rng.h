// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011).
// A value is a pure function of its key and counter, so there is no generator state to save.
#pragma once

#include <array>
#include <cstdint>

namespace parbuckle {

enum class RandomPurpose : std::uint32_t {
  init = 1,
  dropout = 2,
  shuffle = 3,
  rounding = 4,
  sampling = 5
};

/// Four 32-bit words for (seed, purpose, counters).
std::array<std::uint32_t, 4> philox(std::uint64_t seed,
                                    RandomPurpose purpose,
                                    std::uint64_t stream,
                                    std::uint32_t index);

/// Uniform in [0, 1), 53 bits.
double uniform(std::uint64_t seed,
               RandomPurpose purpose,
               std::uint64_t stream,
               std::uint32_t index);

}  // namespace parbuckle
