// c(m, n) = a(m, k) b(k, n) in fp32 on the plain cores, for parity with the CPU. Each element of c is summed by one thread,
// k ascending in chunks of 16, so its bits depend on k alone.
#pragma once

#include <cstdint>
#include <simt/simt.h>

#include "parbuckle/status.h"

namespace parbuckle::cuda {

/// A matrix by its strides; a transposed one has them swapped.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t elements = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;
};

struct GemmF32 {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Matrix<const float> a;
  Matrix<const float> b;
  Matrix<float> c;
  const float* bias = nullptr;  // n, added to every row
  bool accumulate = false;      // c += a b
};

/// Enqueues.
Status gemm_f32(const simt::Queue& queue, const GemmF32& gemm);

}  // namespace parbuckle::cuda
