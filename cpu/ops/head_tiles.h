// What both forms of the output layer share: rows with a target, gathered into tiles whose logits exist one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

/// Rows of logits that exist at a time; part of the numeric signature. Rows without a target take no part: the others
/// are gathered into tiles of this height and, for the last few, of small_head_tile. A tile is always computed whole,
/// so that a shape needs two sets of primitives; rows that it lacks are zero.
inline constexpr std::int64_t head_tile = 256;
inline constexpr std::int64_t small_head_tile = 64;

/// One head over the rows of a micro-batch.
struct HeadSizes {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t vocabulary = 0;  // of all parts at hand
};

struct HeadWorkspace {
  std::int32_t* targeted;  // rows that have a target, ascending
  double* losses;          // of those
  float* h;                // (tile, width), gathered
  float* dh;
  float* logits;      // per part (tile, V_p), one part after the other
  std::byte* matmul;  // last, so that only prepare needs its size
};

/// Takes the pieces for tiles of `sizes`.
HeadWorkspace carve_head(Pieces& pieces, const HeadSizes& sizes, std::int64_t matmul_bytes);

/// Creates the primitives of a part of `vocabulary` rows; raises `bytes` to the largest workspace among them.
Status prepare_head_part(Context& context,
                         const HeadSizes& sizes,
                         std::int64_t vocabulary,
                         bool backward,
                         std::int64_t& bytes);

/// Rows with a target, ascending; returns how many. Fails on a target outside the vocabulary.
Result<std::int64_t> collect_targets(std::span<const std::int32_t> targets,
                                     std::int64_t vocabulary,
                                     std::int32_t* to);

/// Some rows of a micro-batch that are computed together.
struct HeadTile {
  std::span<const std::int32_t> rows;
  std::int64_t first = 0;   // index of the first among all rows with a target
  std::int64_t height = 0;  // rows that are computed, at least rows.size()
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
};

/// Height of the next tile, of `left` rows with a target among the `rows` of a micro-batch.
std::int64_t next_tile_height(std::int64_t rows, std::int64_t left);

/// Calls body(tile) for each tile in order, until one fails.
template <class F>
Status each_tile(const HeadSizes& sizes,
                 const HeadWorkspace& w,
                 std::int64_t count,
                 const F& body) {
  for (std::int64_t first = 0; first < count;) {
    const std::int64_t height = next_tile_height(sizes.rows, count - first);
    const std::int64_t taken = std::min(height, count - first);
    PARBUCKLE_TRY(body(HeadTile{.rows = {w.targeted + first, static_cast<std::size_t>(taken)},
                                .first = first,
                                .height = height}));
    first += taken;
  }
  return {};
}

/// to(tile.height, width) = the tile's rows of `from`; rows that it lacks are 0.
void gather(
    const Context& context, const HeadTile& tile, std::int64_t width, const float* from, float* to);

/// The tile's rows of `to` = from(tile.height, width).
void scatter(
    const Context& context, const HeadTile& tile, std::int64_t width, const float* from, float* to);

/// One part of the vocabulary.
struct HeadPart {
  const float* table = nullptr;  // (size, width)
  float* gradient = nullptr;     // (size, width)
  float* logits = nullptr;       // (tile height, size)
  std::int64_t size = 0;
};

/// logits = h E^T
Status part_logits(Context& context,
                   std::int64_t width,
                   const HeadWorkspace& w,
                   const HeadPart& part,
                   std::int64_t height);

/// dh += g E, then dE += g^T h, with g in place of the logits.
Status part_gradients(Context& context,
                      std::int64_t width,
                      const HeadWorkspace& w,
                      const HeadPart& part,
                      std::int64_t height);

/// to[0] = the sum of the losses in order, to[1] = how many.
void write_loss(const double* losses, std::int64_t count, double* to);

}  // namespace parbuckle::cpu
