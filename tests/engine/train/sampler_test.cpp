#include "engine/train/sampler.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

namespace parbuckle {
namespace {

constexpr std::array<float, 5> logits{1.0F, 3.0F, 3.0F, 0.0F, -2.0F};

TEST(Sampler, GreedyTakesTheLowestIdOnATie) {
  EXPECT_EQ(sample(logits, {}, 0), 1);
  const std::array<float, 3> with_nan{std::numeric_limits<float>::quiet_NaN(), -1.0F, 2.0F};
  EXPECT_EQ(sample(with_nan, {}, 0), 2);
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  std::map<std::int32_t, int> seen;
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    ++seen[sample(logits, {.temperature = 1, .seed = 3}, static_cast<std::uint64_t>(i))];
  }
  double total = 0;
  for (const float logit : logits) {
    total += std::exp(static_cast<double>(logit));
  }
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const double expected = std::exp(static_cast<double>(logits[id])) / total;
    EXPECT_NEAR(seen[static_cast<std::int32_t>(id)] / static_cast<double>(draws), expected, 0.01)
        << id;
  }
}

TEST(Sampler, TopKAndTopPCutTheTail) {
  for (std::uint64_t i = 0; i < 500; ++i) {
    const std::int32_t k = sample(logits, {.temperature = 5, .top_k = 2}, i);
    EXPECT_TRUE(k == 1 || k == 2);
    const std::int32_t p = sample(logits, {.temperature = 1, .top_p = 0.4}, i);
    EXPECT_EQ(p, 1);
  }
}

TEST(Sampler, SameKeySameDraw) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(sample(logits, {.temperature = 1}, i), sample(logits, {.temperature = 1}, i));
  }
}

}  // namespace
}  // namespace parbuckle
