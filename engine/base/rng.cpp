#include "engine/base/rng.h"

namespace parbuckle {
namespace {

constexpr std::uint32_t multiplier0 = 0xD2511F53U;
constexpr std::uint32_t multiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t weyl0 = 0x9E3779B9U;
constexpr std::uint32_t weyl1 = 0xBB67AE85U;
constexpr int rounds = 10;

}  // namespace

std::array<std::uint32_t, 4> philox(std::uint64_t seed,
                                    RandomPurpose purpose,
                                    std::uint64_t stream,
                                    std::uint32_t index) {
  std::array<std::uint32_t, 4> c{index,
                                 static_cast<std::uint32_t>(stream),
                                 static_cast<std::uint32_t>(stream >> 32U),
                                 static_cast<std::uint32_t>(purpose)};
  std::uint32_t key0 = static_cast<std::uint32_t>(seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32U);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{multiplier0} * c[0];
    const std::uint64_t product1 = std::uint64_t{multiplier1} * c[2];
    c = {static_cast<std::uint32_t>(product1 >> 32U) ^ c[1] ^ key0,
         static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32U) ^ c[3] ^ key1,
         static_cast<std::uint32_t>(product0)};
    key0 += weyl0;
    key1 += weyl1;
  }
  return c;
}

double uniform(std::uint64_t seed,
               RandomPurpose purpose,
               std::uint64_t stream,
               std::uint32_t index) {
  const auto words = philox(seed, purpose, stream, index);
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32U | words[1]) >> 11U;
  return static_cast<double>(bits) * 0x1.0p-53;
}

}  // namespace parbuckle
