// bfloat16 by its bits.
#pragma once

#include <bit>
#include <cstdint>

namespace parbuckle::simt {

struct Bf16 {
  std::uint16_t bits = 0;
};

inline float widen(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16U);
}

/// To nearest, ties to even; NaN stays NaN.
inline Bf16 narrow(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return {static_cast<std::uint16_t>((bits >> 16U) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

}  // namespace parbuckle::simt
