// What both forms of the output layer share: rows with a target, gathered into tiles whose logits exist one at a time. How
// many rows have one is known on the device only, so every tile that could be needed is launched and an empty one does
// nothing but its products.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm_f32.h"
#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

/// Rows of logits that exist at a time; part of the numeric signature.
inline constexpr std::int64_t head_tile = 256;

struct HeadSizes {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t vocabulary = 0;  // of all parts at hand
  [[nodiscard]] std::int64_t tile() const { return simt::smaller(rows, head_tile); }
  [[nodiscard]] std::int64_t tiles() const { return ceil_divide(rows, head_tile); }
};

struct HeadWorkspace {
  std::int64_t* count;     // of rows that have a target
  std::int32_t* targeted;  // those rows, ascending
  double* losses;          // of those
  float* h;                // (tile, width), gathered
  float* dh;
  float* logits;  // (tile, vocabulary)
};

HeadWorkspace carve_head(Pieces& pieces, const HeadSizes& sizes);

/// The rows with a target as kernels see them.
struct TargetedRows {
  Global<const std::int64_t> count;
  Global<const std::int32_t> list;
  /// The row behind place `i`; -1 beyond the last.
  SIMT_DEVICE std::int64_t row(std::int64_t i) const {
    return i < count[0] ? std::int64_t{list[i]} : std::int64_t{-1};
  }
};
TargetedRows targeted_rows(const Context& context, const HeadSizes& sizes, const HeadWorkspace& w);

/// Fills count and targeted; a target of `vocabulary` or more is a data fault.
Status collect_targets(const Context& context,
                       const HeadSizes& sizes,
                       const Global<const std::int32_t>& targets,
                       std::int64_t vocabulary,
                       const HeadWorkspace& w);

/// to(tile, width) = the rows behind places first, first + 1, ...; zeros where there are none.
Status gather_rows(const Context& context,
                   const HeadSizes& sizes,
                   const HeadWorkspace& w,
                   std::int64_t first,
                   const Global<const float>& from,
                   float* to);

/// The rows behind places first, first + 1, ... of `to` = from(tile, width).
Status scatter_rows(const Context& context,
                    const HeadSizes& sizes,
                    const HeadWorkspace& w,
                    std::int64_t first,
                    const float* from,
                    const Global<float>& to);

/// Columns [begin, begin + size) of the logits belong to this part.
struct HeadPart {
  const float* table = nullptr;  // (size, width)
  float* gradient = nullptr;     // (size, width)
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

/// logits = h E^T
Status part_logits(const Context& context,
                   const HeadSizes& sizes,
                   const HeadWorkspace& w,
                   const HeadPart& part);

/// dh += g E, then dE += g^T h, with g in place of the logits.
Status part_gradients(const Context& context,
                      const HeadSizes& sizes,
                      const HeadWorkspace& w,
                      const HeadPart& part);

/// loss[0] = the sum of the losses, loss[1] = how many.
Status write_loss(const Context& context,
                  const HeadSizes& sizes,
                  const HeadWorkspace& w,
                  const Global<double>& loss);

}  // namespace parbuckle::cuda
