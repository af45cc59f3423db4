// One call of an operator on copies of its operands: on the reference, and on the device under test five times; on the
// harness each time with another order of warps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/op.h"
#include "tests/support/device_table.h"
#include "tests/support/near.h"
#include "tests/support/op_call.h"
#include "tests/support/reference_table.h"

namespace parbuckle::testing {

inline constexpr std::uint64_t warp_orders[] = {1, 2, 3, 4, 5};

/// |found - wanted| <= relative * (largest finite |wanted|, 0.1 at least) for every entry; infinities are equal.
inline ::testing::AssertionResult agree(const std::vector<double>& found,
                                        const std::vector<double>& wanted,
                                        double relative) {
  double largest = 0.1;
  for (const double value : wanted) {
    largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool same = std::isinf(wanted[i]) && found[i] == wanted[i];
    if (!same && !(std::abs(found[i] - wanted[i]) <= relative * largest)) {
      return ::testing::AssertionFailure() << "entry " << i << ": " << found[i] << ", expected "
                                           << wanted[i] << " within " << relative * largest;
    }
  }
  return ::testing::AssertionSuccess();
}

class OpCase {
 public:
  explicit OpCase(OpKind kind, const Attributes& attributes = {})
      : kind_(kind), attributes_(attributes) {}

  /// An operand of `rows` by `columns` random values; a seed of 0 fills it with NaN: an output.
  OpCase& floats(std::int64_t rows, std::int64_t columns, std::uint64_t seed, double scale = 1) {
    const std::int64_t count = rows * columns;
    return values(seed == 0 ? std::vector<float>(static_cast<std::size_t>(count), NAN)
                            : random_floats(seed, count, scale),
                  {rows, columns, 1});
  }
  template <class T>
  OpCase& values(const std::vector<T>& data, Shape shape = {0, 0, 0}) {
    if (shape.d1 == 0) {
      shape = {static_cast<std::int64_t>(data.size()), 1, 1};
    }
    Operand operand{std::vector<std::byte>(data.size() * sizeof(T)), shape, dtype_of<T>()};
    if (!data.empty()) {
      std::memcpy(operand.bytes.data(), data.data(), operand.bytes.size());
    }
    operands_.push_back(std::move(operand));
    return *this;
  }
  template <class T>
  OpCase& structure(const T& value) {
    std::vector<std::uint8_t> bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    return values(bytes);
  }

  /// The operands afterwards.
  struct Operand {
    std::vector<std::byte> bytes;
    Shape shape;
    DType dtype;
    template <class T>
    [[nodiscard]] std::vector<T> as() const {
      std::vector<T> out(bytes.size() / sizeof(T));
      if (!out.empty()) {
        std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
      }
      return out;
    }
  };
  [[nodiscard]] Status run(const OpTable& table, std::vector<Operand>& operands) const {
    operands = operands_;
    OpCall call(kind_, attributes_);
    for (Operand& operand : operands) {
      call.with_raw(operand.bytes.data(), operand.shape, operand.dtype);
    }
    return call.run(table);
  }
  /// On the device under test, with one order of warps.
  [[nodiscard]] std::vector<Operand> result(std::uint64_t order = 1) const {
    DeviceTable device(order);
    std::vector<Operand> operands;
    const Status status = run(device.table(), operands);
    EXPECT_TRUE(status.ok()) << status.message();
    return operands;
  }

  /// Every float operand is within `relative` of the reference's, the others are equal; and all have the same bits for all orders.
  void expect_reference(double relative) const {
    std::vector<Operand> wanted;
    const Status status = run(reference_table(), wanted);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<Operand> first = result(warp_orders[0]);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      SCOPED_TRACE(std::string(to_string(kind_)) + ", operand " + std::to_string(i));
      if (wanted[i].dtype == DType::f32) {
        const auto values = first[i].as<float>();
        const auto expected = wanted[i].as<float>();
        EXPECT_TRUE(
            agree({values.begin(), values.end()}, {expected.begin(), expected.end()}, relative));
      } else if (wanted[i].dtype == DType::f64) {
        EXPECT_TRUE(agree(first[i].as<double>(), wanted[i].as<double>(), relative));
      } else {
        EXPECT_EQ(first[i].bytes, wanted[i].bytes);
      }
    }
    for (const std::uint64_t order : warp_orders) {
      const std::vector<Operand> again = result(order);
      for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(again[i].bytes, first[i].bytes)
            << to_string(kind_) << ", operand " << i << ": bits depend on the order of warps";
      }
    }
  }

 private:
  OpKind kind_;
  Attributes attributes_;
  std::vector<Operand> operands_;
};

/// A `touched` operand: header and ids.
inline std::vector<std::uint8_t> touched_rows(const std::vector<std::int32_t>& ids) {
  const TouchedRows header{.count = static_cast<std::int64_t>(ids.size())};
  std::vector<std::uint8_t> bytes(sizeof(header) + ids.size() * sizeof(std::int32_t));
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (!ids.empty()) {
    std::memcpy(bytes.data() + sizeof(header), ids.data(), bytes.size() - sizeof(header));
  }
  return bytes;
}

}  // namespace parbuckle::testing
