// Comparisons of float32 results with a float64 reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace parbuckle::testing {

/// |found - expected| <= relative * (largest |expected| of all entries, 0.1 at least), for every entry.
inline ::testing::AssertionResult close(const std::vector<float>& found,
                                        const std::vector<double>& expected,
                                        double relative) {
  if (found.size() != expected.size()) {
    return ::testing::AssertionFailure() << found.size() << " values, expected " << expected.size();
  }
  double largest = 0.1;
  for (const double value : expected) {
    largest = std::max(largest, std::abs(value));
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(static_cast<double>(found[i]) - expected[i]);
    if (!(error <= relative * largest)) {
      return ::testing::AssertionFailure() << "entry " << i << ": " << found[i] << ", expected "
                                           << expected[i] << " within " << relative * largest;
    }
  }
  return ::testing::AssertionSuccess();
}

template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " values and " << b.size();
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure() << "entry " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace parbuckle::testing

// A Status that must be ok; its message is shown where it is not.
#define EXPECT_OK(expr)                                   \
  do {                                                    \
    const ::parbuckle::Status expect_ok_ = (expr);        \
    EXPECT_TRUE(expect_ok_.ok()) << expect_ok_.message(); \
  } while (false)
#define ASSERT_OK(expr)                                   \
  do {                                                    \
    const ::parbuckle::Status assert_ok_ = (expr);        \
    ASSERT_TRUE(assert_ok_.ok()) << assert_ok_.message(); \
  } while (false)
