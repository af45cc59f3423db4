// Sums and maxima over the lanes of a warp or the threads of a block, in an order that never changes.
#pragma once

#include <cstdint>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

template <class T>
SIMT_DEVICE T warp_sum(const Thread& t, T value) {
  SIMT_UNROLL
  for (int mask = simt::warp_size / 2; mask > 0; mask /= 2) {
    value += t.shuffle_xor(value, mask);
  }
  return value;
}

/// NaN is ignored where any lane has a number.
SIMT_DEVICE float warp_max(const Thread& t, float value) {
  SIMT_UNROLL
  for (int mask = simt::warp_size / 2; mask > 0; mask /= 2) {
    value = simt::larger(value, t.shuffle_xor(value, mask));
  }
  return value;
}

/// Over all threads; every thread gets the result. `slots` is one value per warp, used by nobody else until the kernel ends.
template <int threads, class T>
SIMT_DEVICE T block_sum(const Thread& t, const Shared<T>& slots, T value) {
  const T of_warp = warp_sum(t, value);
  if (t.lane() == 0) {
    slots[t.warp()] = of_warp;
  }
  t.sync();
  T total = slots[0];
  for (int warp = 1; warp < threads / simt::warp_size; ++warp) {
    total += slots[warp];
  }
  return total;
}

template <int threads>
SIMT_DEVICE float block_max(const Thread& t, const Shared<float>& slots, float value) {
  const float of_warp = warp_max(t, value);
  if (t.lane() == 0) {
    slots[t.warp()] = of_warp;
  }
  t.sync();
  float most = slots[0];
  for (int warp = 1; warp < threads / simt::warp_size; ++warp) {
    most = simt::larger(most, static_cast<float>(slots[warp]));
  }
  return most;
}

}  // namespace parbuckle::cuda
