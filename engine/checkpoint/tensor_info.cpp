#include "engine/checkpoint/tensor_info.h"

namespace parbuckle {

std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(count, dimension, &count)) {
      return std::nullopt;
    }
  }
  return count;
}

std::optional<std::int64_t> stored_bytes(const TensorInfo& tensor) {
  const std::optional<std::int64_t> elements = element_count(tensor.shape);
  if (!elements) {
    return std::nullopt;
  }
  return stored_bytes(tensor.type, *elements);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (const std::int64_t dimension : shape) {
    out += (out.size() > 1 ? ", " : "") + std::to_string(dimension);
  }
  return out + "]";
}

}  // namespace parbuckle
