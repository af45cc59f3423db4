// How operators look at their operands: shapes, addresses, checks, and the cutting of workspaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "parbuckle/status.h"
#include "parbuckle/units.h"

#include "engine/base/check.h"
#include "engine/base/op.h"

namespace parbuckle {

/// Rows and columns of a shape read as a matrix: everything behind the first dimension is columns.
inline std::int64_t rows_of(const Shape& shape) {
  return shape.d0;
}
inline std::int64_t columns_of(const Shape& shape) {
  return shape.d1 * shape.d2;
}

inline const Shape& shape_of(const OpShape& op, std::size_t index) {
  PARBUCKLE_CHECK(index < op.operands.size(), "an operator has too few operands");
  return op.operands[index];
}

template <class T>
const T* in(const OpArgs& args, std::size_t index) {
  PARBUCKLE_CHECK(index < args.operands.size(), "an operator has too few operands");
  return static_cast<const T*>(args.operands[index].data);
}
template <class T>
T* out(const OpArgs& args, std::size_t index) {
  PARBUCKLE_CHECK(index < args.operands.size(), "an operator has too few operands");
  return static_cast<T*>(args.operands[index].data);
}

/// Ids behind the header of a `touched` operand.
inline std::span<const std::int32_t> touched_ids(const OpArgs& args, std::size_t index) {
  const auto* const header = in<TouchedRows>(args, index);
  return {static_cast<const std::int32_t*>(static_cast<const void*>(header + 1)),
          static_cast<std::size_t>(header->count)};
}

/// Element counts that the operands must have, in order; any_size is not checked.
inline constexpr std::int64_t any_size = -1;
Status expect_elements(const OpShape& op, std::initializer_list<std::int64_t> elements);

/// `count` operands, all of the size of the first.
Status expect_alike(const OpShape& op, std::size_t count);

/// Workspaces are cut into pieces that begin on cache lines.
inline constexpr std::int64_t piece_alignment = 64;
class Pieces {
 public:
  explicit Pieces(void* base = nullptr) : base_(static_cast<std::byte*>(base)) {}
  /// The next `count` elements. With no base only bytes() is meaningful.
  template <class T>
  T* take(std::int64_t count) {
    const std::int64_t at = bytes_;
    bytes_ += round_up(count * static_cast<std::int64_t>(sizeof(T)), piece_alignment);
    return base_ == nullptr ? nullptr : static_cast<T*>(static_cast<void*>(base_ + at));
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  std::int64_t bytes_ = 0;
};

}  // namespace parbuckle
