// The ShapeKeys of a run: few enough that programs and primitives stay few, a function of the longest micro-batch only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/program.h"

namespace parbuckle {

/// Multiples of row_multiple, ascending; the last one holds `most_rows`; at most 16, evenly spaced.
std::vector<ShapeKey> micro_batch_shapes(std::int64_t most_rows);

/// Index of the smallest shape that holds `rows`. REQUIRES: rows <= shapes.back().rows.
std::int32_t shape_for(const std::vector<ShapeKey>& shapes, std::int64_t rows);

}  // namespace parbuckle
