#include "engine/train/shapes.h"

#include <algorithm>

#include "parbuckle/units.h"

#include "engine/data/batch.h"

namespace parbuckle {

std::vector<ShapeKey> micro_batch_shapes(std::int64_t most_rows) {
  constexpr std::int64_t most_shapes = 16;
  const std::int64_t most = round_up(std::max<std::int64_t>(1, most_rows), row_multiple);
  const std::int64_t step = round_up((most + most_shapes - 1) / most_shapes, row_multiple);
  std::vector<ShapeKey> shapes;
  for (std::int64_t rows = step; rows < most; rows += step) {
    shapes.push_back({.rows = rows});
  }
  shapes.push_back({.rows = most});
  return shapes;
}

std::int32_t shape_for(const std::vector<ShapeKey>& shapes, std::int64_t rows) {
  const auto found = std::find_if(
      shapes.begin(), shapes.end(), [rows](const ShapeKey& s) { return s.rows >= rows; });
  return static_cast<std::int32_t>(found - shapes.begin());
}

}  // namespace parbuckle
