// The order of rows in an epoch as a function: no list is held, and any place in it can be asked for.
#pragma once

#include <cstdint>

namespace parbuckle {

/// A permutation of 0 .. rows-1 for (seed, epoch): a Feistel network over Philox, walked until the result is in range.
class Shuffle {
 public:
  /// REQUIRES: rows > 0.
  Shuffle(std::int64_t rows, std::uint64_t seed, std::int64_t epoch);
  /// REQUIRES: 0 <= position < rows.
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  [[nodiscard]] std::uint64_t permute(std::uint64_t value) const;

  std::uint64_t rows_;
  std::uint64_t seed_;
  std::uint64_t epoch_;
  std::uint32_t half_bits_ = 1;
};

}  // namespace parbuckle
