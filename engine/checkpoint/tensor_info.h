#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/storage_type.h"

namespace parbuckle {

/// One tensor of a weight file. The data are bytes [begin, end) of that file, little-endian, rows contiguous.
struct TensorInfo {
  std::string name;
  StorageType type = StorageType::f32;
  std::vector<std::int64_t> shape;  // outermost first, as PyTorch says it; [] is a scalar
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

/// Product of the dimensions, or nothing where it does not fit 64 bits. REQUIRES: no negative dimension.
std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape);

/// Bytes that type and shape ask for, or nothing where they are no whole blocks or do not fit 64 bits.
std::optional<std::int64_t> stored_bytes(const TensorInfo& tensor);

/// "[576, 1536]"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace parbuckle
