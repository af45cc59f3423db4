// Sums over rows, column by column: chunks of 64 rows are summed from zero, then added to the result in order.
#pragma once

#include <cstdint>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

inline constexpr std::int64_t rows_per_chunk = 64;

constexpr std::int64_t chunks_of(std::int64_t rows) {
  return ceil_divide(rows, rows_per_chunk);
}

/// partials(chunks, width) = sums of value(row, column) over the rows of each chunk.
template <class Value>
struct ColumnPartials {
  static constexpr int threads = 128;
  Value value;
  Global<float> partials;
  std::int64_t rows;
  std::int64_t width;
  SIMT_DEVICE void operator()(const Thread& t) const {
    const std::int64_t column = t.block() * threads + t.index();
    if (column >= width) {
      return;
    }
    const std::int64_t begin = t.block_y() * rows_per_chunk;
    const std::int64_t end = simt::smaller(begin + rows_per_chunk, rows);
    float sum = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      sum += value(row, column);
    }
    partials[t.block_y() * width + column] = sum;
  }
};

/// to(width) += partials(chunks, width), chunks in order.
struct AddPartials {
  Global<const float> partials;
  Global<float> to;
  std::int64_t chunks;
  std::int64_t width;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t column) const {
    float sum = to[column];
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      sum += partials[chunk * width + column];
    }
    to[column] = sum;
  }
};

/// to(width) += sum over rows of value(row, column). `partials` holds chunks_of(rows) * width floats.
template <class Value>
Status add_column_sums(const Context& context,
                       const Value& value,
                       std::int64_t rows,
                       float* partials,
                       const Global<float>& to,
                       std::int64_t width) {
  const std::int64_t chunks = chunks_of(rows);
  if (chunks == 0) {
    return {};
  }
  PARBUCKLE_TRY(simt::launch(
      context.queue,
      {.x = ceil_divide(width, ColumnPartials<Value>::threads), .y = chunks},
      ColumnPartials<Value>{value, context.queue.view(partials, chunks * width), rows, width}));
  const float* const sums = partials;
  return for_each(
      context, width, AddPartials{context.queue.view(sums, chunks * width), to, chunks, width});
}

}  // namespace parbuckle::cuda
