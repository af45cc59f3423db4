// Runs one operator of a table on vectors: shapes, views and workspace around a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "parbuckle/dtype.h"
#include "parbuckle/status.h"

#include "engine/base/op.h"
#include "engine/base/rng.h"

namespace parbuckle::testing {

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::f64;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::i32;
  } else {
    return DType::u8;
  }
}

/// 64-byte aligned bytes, filled with NaN patterns so that whoever reads before writing is found out.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::int64_t bytes)
      : data_(::operator new (static_cast<std::size_t>(bytes) + 64, std::align_val_t{64})) {
    std::memset(data_, 0xFF, static_cast<std::size_t>(bytes) + 64);
  }
  ~AlignedBytes() { ::operator delete (data_, std::align_val_t{64}); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_;
};

class OpCall {
 public:
  explicit OpCall(OpKind kind, const Attributes& attributes = {}) {
    shape_.kind = kind;
    shape_.attributes = attributes;
  }

  /// The next operand; its shape is the vector's size unless given.
  template <class T>
  OpCall& with(std::vector<T>& data, Shape shape = {0, 0, 0}) {
    if (shape.d0 == 0) {
      shape = {static_cast<std::int64_t>(data.size()), 1, 1};
    }
    return with_raw(data.data(), shape, dtype_of<T>());
  }
  /// A matrix with `columns` columns.
  template <class T>
  OpCall& rows(std::vector<T>& data, std::int64_t columns) {
    return with(data, Shape{static_cast<std::int64_t>(data.size()) / columns, columns, 1});
  }
  template <class T>
  OpCall& with_struct(T& value) {
    return with_raw(&value, {static_cast<std::int64_t>(sizeof(T)), 1, 1}, DType::u8);
  }
  OpCall& with_raw(void* data, Shape shape, DType dtype) {
    shape_.operands.push_back(shape);
    views_.push_back({data, shape, dtype});
    return *this;
  }

  [[nodiscard]] const OpShape& shape() const { return shape_; }

  Status prepare(const OpTable& table) {
    PARBUCKLE_ASSIGN(const std::int64_t bytes, table.prepare(table.state, shape_));
    workspace_ = std::make_unique<AlignedBytes>(bytes);
    return {};
  }
  /// REQUIRES: prepare() succeeded.
  Status run_prepared(const OpTable& table) {
    return table.run(
        table.state,
        shape_,
        {.operands = views_, .attributes = &shape_.attributes, .workspace = workspace_->data()});
  }
  Status run(const OpTable& table) {
    PARBUCKLE_TRY(prepare(table));
    return run_prepared(table);
  }

 private:
  OpShape shape_;
  std::vector<OperandView> views_;
  std::unique_ptr<AlignedBytes> workspace_;
};

/// Uniform in [-scale, scale), a function of seed and index.
inline std::vector<float> random_floats(std::uint64_t seed, std::int64_t count, double scale = 1) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double u = uniform(seed, RandomPurpose::init, 0, static_cast<std::uint32_t>(i));
    out[i] = static_cast<float>((2 * u - 1) * scale);
  }
  return out;
}

}  // namespace parbuckle::testing
