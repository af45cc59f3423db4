#include "engine/base/rng.h"

#include <gtest/gtest.h>

namespace parbuckle {
namespace {

// Known answers of Philox4x32-10 from the Random123 distribution (kat_vectors): counter and key all zero.
TEST(Philox, MatchesThePublishedKnownAnswer) {
  const auto words = philox(0, static_cast<RandomPurpose>(0), 0, 0);
  EXPECT_EQ(words,
            (std::array<std::uint32_t, 4>{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
}

TEST(Philox, UniformStaysInItsInterval) {
  double sum = 0;
  for (std::uint32_t i = 0; i < 10000; ++i) {
    const double u = uniform(7, RandomPurpose::sampling, 3, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

}  // namespace
}  // namespace parbuckle
