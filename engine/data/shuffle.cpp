#include "engine/data/shuffle.h"

#include <bit>

#include "engine/base/check.h"
#include "engine/base/rng.h"

namespace parbuckle {

constexpr std::uint64_t rounds = 8;

Shuffle::Shuffle(std::int64_t rows, std::uint64_t seed, std::int64_t epoch)
    : rows_(static_cast<std::uint64_t>(rows)),
      seed_(seed),
      epoch_(static_cast<std::uint64_t>(epoch)) {
  PARBUCKLE_CHECK(rows > 0, "a shuffle has rows");
  const auto bits = static_cast<std::uint32_t>(std::bit_width(rows_ - 1));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

std::uint64_t Shuffle::permute(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto words = philox(
        seed_, RandomPurpose::shuffle, epoch_ * rounds + round, static_cast<std::uint32_t>(right));
    const std::uint64_t next = left ^ (words[0] & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::int64_t Shuffle::operator()(std::int64_t position) const {
  auto value = static_cast<std::uint64_t>(position);
  do {
    value = permute(value);
  } while (value >= rows_);
  return static_cast<std::int64_t>(value);
}

}  // namespace parbuckle
