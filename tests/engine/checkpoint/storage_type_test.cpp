#include "engine/checkpoint/storage_type.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "engine/checkpoint/float_formats.h"

namespace parbuckle {
namespace {

TEST(StorageType, EveryHalfSurvivesTheWayThroughFloat) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    const float wide = half_to_float(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(wide))));
      continue;
    }
    ASSERT_EQ(float_to_half(wide), half) << i;
  }
  EXPECT_EQ(half_to_float(0x3C00), 1.0F);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(half_to_float(0x7BFF), 65504.0F);
  EXPECT_TRUE(std::isinf(half_to_float(0xFC00)));
}

TEST(StorageType, HalvesRoundToNearestEven) {
  for (std::uint32_t i = 0; i < 0x7BFF; ++i) {  // between each finite half and the next
    const auto half = static_cast<std::uint16_t>(i);
    const float low = half_to_float(half);
    const float high = half_to_float(static_cast<std::uint16_t>(i + 1));
    const float middle = low + (high - low) / 2;  // exact: one more bit
    const std::uint32_t even = (i & 1U) == 0 ? i : i + 1;
    ASSERT_EQ(float_to_half(middle), even) << i;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), i) << i;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9F)), i + 1) << i;
    ASSERT_EQ(float_to_half(-middle), even | 0x8000U) << i;
  }
  EXPECT_EQ(float_to_half(65519.9F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(1e30F), 0x7C00);
}

TEST(StorageType, BfloatsRoundToNearestEven) {
  EXPECT_EQ(float_to_bfloat16(1.0F), 0x3F80);
  EXPECT_EQ(float_to_bfloat16(1.0F + 0x1p-8F), 0x3F80);             // tie, down to even
  EXPECT_EQ(float_to_bfloat16(1.0F + 3 * 0x1p-8F), 0x3F82);         // tie, up to even
  EXPECT_EQ(float_to_bfloat16(1.0F + 0x1p-8F + 0x1p-20F), 0x3F81);  // just above the tie
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::nanf("")))));
  for (std::uint32_t i = 0; i < 0x7F80; ++i) {
    ASSERT_EQ(float_to_bfloat16(bfloat16_to_float(static_cast<std::uint16_t>(i))), i);
  }
}

// An empty tensor has no memory at all; the undefined-behaviour sanitizer watches this.
TEST(StorageType, NothingConvertsToNothing) {
  for (const StorageType type : {StorageType::f32, StorageType::bf16, StorageType::q4_1}) {
    to_floats(type, nullptr, 0, nullptr);
  }
  from_floats(StorageType::f32, nullptr, 0, nullptr);
  from_floats(StorageType::bf16, nullptr, 0, nullptr);
  EXPECT_EQ(stored_bytes(StorageType::f32, 0), 0);
}

TEST(StorageType, SizesCountWholeBlocks) {
  EXPECT_EQ(stored_bytes(StorageType::q4_1, 64), 40);
  EXPECT_EQ(stored_bytes(StorageType::q4_1, 48), std::nullopt);
  EXPECT_EQ(stored_bytes(StorageType::bf16, 3), 6);
  EXPECT_EQ(stored_bytes(StorageType::f64, std::numeric_limits<std::int64_t>::max()), std::nullopt);
  EXPECT_EQ(storage_type_from_safetensors("F8_E4M3"), StorageType::f8_e4m3);
  EXPECT_EQ(storage_type_from_safetensors("Q4_0"), std::nullopt);
  EXPECT_EQ(storage_type_from_gguf(3), StorageType::q4_1);
  EXPECT_EQ(storage_type_from_gguf(4), std::nullopt);
  EXPECT_EQ(storage_type_from_gguf(0xFFFFFFFF), std::nullopt);
}

}  // namespace
}  // namespace parbuckle
