// What the attention kernels share: sizes, what a row sees, and tiles of keys or queries in shared memory.
#pragma once

#include <cstdint>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

inline constexpr int attention_threads = 256;
inline constexpr int attention_warps = attention_threads / simt::warp_size;  // one row each
inline constexpr int key_tile = simt::warp_size;                             // one row per lane
inline constexpr std::int64_t most_depth = 256;
inline constexpr int most_columns = most_depth / simt::warp_size;  // of a head that a lane owns

struct AttentionSizes {
  std::int64_t rows = 0;
  std::int64_t key_rows = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t depth = 0;  // of a head
  std::int64_t window = 0;
  float scale = 1;
  [[nodiscard]] SIMT_HOST_DEVICE std::int64_t group() const { return heads / kv_heads; }
  [[nodiscard]] SIMT_HOST_DEVICE std::int64_t q_width() const { return heads * depth; }
  [[nodiscard]] SIMT_HOST_DEVICE std::int64_t kv_width() const { return kv_heads * depth; }
  /// A row of a tile in shared memory: one longer than the head, so that lanes reading different rows hit different banks.
  [[nodiscard]] SIMT_HOST_DEVICE std::int64_t pitch() const { return depth + 1; }
};

/// Keys that a row may look at; none where first > last.
struct KeyRange {
  std::int64_t first;
  std::int64_t last;
  SIMT_DEVICE bool holds(std::int64_t key) const { return key >= first && key <= last; }
  SIMT_DEVICE bool empty() const { return first > last; }
};

/// Which keys a row sees: rows of its segment up to itself, or everything up to its position in a cache.
struct Visibility {
  Global<const std::int32_t> begins;
  Global<const std::int32_t> positions;  // of a cache; then begins are not used
  std::int64_t rows;
  std::int64_t key_rows;
  std::int64_t window;

  SIMT_DEVICE KeyRange of(std::int64_t row) const {
    if (row >= rows) {
      return {0, -1};
    }
    const std::int64_t begin = positions ? std::int64_t{0} : std::int64_t{begins[row]};
    const std::int64_t last = positions ? simt::smaller(positions[row], key_rows - 1) : row;
    if (begin < 0 || last < 0) {
      return {0, -1};
    }
    return {window > 0 ? simt::larger(begin, last - window + 1) : begin, last};
  }

  /// The keys that any of `count` rows sees.
  SIMT_DEVICE KeyRange of_rows(std::int64_t first_row, std::int64_t count) const {
    KeyRange all{1, 0};
    for (std::int64_t i = 0; i < count; ++i) {
      const KeyRange one = of(first_row + i);
      if (!one.empty()) {
        all = all.empty()
                  ? one
                  : KeyRange{simt::smaller(all.first, one.first), simt::larger(all.last, one.last)};
      }
    }
    return all;
  }
};

/// tile(count, pitch) = rows of one head; zeros beyond the last row. The whole block takes part.
SIMT_DEVICE void load_rows(const Thread& t,
                           const Global<const float>& from,
                           std::int64_t first_element,
                           std::int64_t row_stride,
                           std::int64_t rows,
                           std::int64_t count,
                           std::int64_t depth,
                           const Shared<float>& to) {
  for (std::int64_t e = t.index(); e < count * depth; e += attention_threads) {
    const std::int64_t row = e / depth;
    const std::int64_t column = e % depth;
    float value = 0;
    if (row < rows) {
      value = from[first_element + row * row_stride + column];
    }
    to[row * (depth + 1) + column] = value;
  }
}

SIMT_DEVICE float dot(const Shared<float>& a,
                      std::int64_t a_begin,
                      const Shared<float>& b,
                      std::int64_t b_begin,
                      std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum = simt::fused(a[a_begin + i], b[b_begin + i], sum);
  }
  return sum;
}

/// sums[c] += sum over j of factors[factor_begin + j] * rows[j][lane + 32 c]. What has no weight is not looked at: it may
/// be a row of a cache that nobody has written.
SIMT_DEVICE void add_weighted_rows(const Thread& t,
                                   const Shared<float>& factors,
                                   std::int64_t factor_begin,
                                   const Shared<float>& rows,
                                   std::int64_t depth,
                                   float (&sums)[most_columns]) {
  for (int j = 0; j < key_tile; ++j) {
    const float factor = factors[factor_begin + j];
    SIMT_UNROLL
    for (int c = 0; c < most_columns; ++c) {
      const std::int64_t column = t.lane() + c * simt::warp_size;
      if (factor != 0.0F && column < depth) {
        sums[c] = simt::fused(factor, rows[j * (depth + 1) + column], sums[c]);
      }
    }
  }
}

/// to[begin + lane + 32 c] = sums[c]
SIMT_DEVICE void store_columns(const Thread& t,
                               const float (&sums)[most_columns],
                               float factor,
                               const Global<float>& to,
                               std::int64_t begin,
                               std::int64_t depth) {
  SIMT_UNROLL
  for (int c = 0; c < most_columns; ++c) {
    const std::int64_t column = t.lane() + c * simt::warp_size;
    if (column < depth) {
      to[begin + column] = sums[c] * factor;
    }
  }
}

}  // namespace parbuckle::cuda
