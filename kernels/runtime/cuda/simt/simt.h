// What kernels are written against, on the device. tests/support/simt has the same names for the host, where every access
// is checked; so kernels use these and nothing of CUDA's own.
// Each kernel is a struct of views and numbers with `static constexpr int threads` and `operator()(const Thread&) const`.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "parbuckle/status.h"

#define SIMT_DEVICE __device__ __forceinline__
#define SIMT_HOST_DEVICE __host__ __device__
#define SIMT_UNROLL _Pragma("unroll")
#define SIMT_ROLLED _Pragma("unroll 1")

namespace parbuckle::simt {

inline constexpr int warp_size = 32;

struct Grid {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t shared_bytes = 0;
};

// ---- arithmetic: never contracted (the build says --fmad=false), so that `fused` is the only fused operation

SIMT_DEVICE float fused(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
SIMT_DEVICE float square_root(float x) {
  return __fsqrt_rn(x);
}
SIMT_DEVICE float exponential(float x) {
  return expf(x);
}
SIMT_DEVICE float complementary_error_function(float x) {
  return erfcf(x);
}
SIMT_DEVICE double logarithm(double x) {
  return log(x);
}
SIMT_DEVICE double square_root(double x) {
  return __dsqrt_rn(x);
}
SIMT_DEVICE double power(double x, double y) {
  return pow(x, y);
}
SIMT_DEVICE double cosine(double x) {
  return cos(x);
}
SIMT_DEVICE double sine(double x) {
  return sin(x);
}
SIMT_DEVICE float larger(float a, float b) {
  return fmaxf(a, b);
}
SIMT_DEVICE bool finite(float x) {
  return isfinite(x);
}
__host__ __device__ constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
__host__ __device__ constexpr std::int64_t larger(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}
inline constexpr float infinity = __builtin_inff();

// ---- bfloat16

using Bf16 = __nv_bfloat16;
SIMT_DEVICE float widen(Bf16 x) {
  return __bfloat162float(x);
}
/// To nearest, ties to even.
SIMT_DEVICE Bf16 narrow(float x) {
  return __float2bfloat16_rn(x);
}

// ---- views

/// Elements of device memory. The host's version checks indices.
template <class T>
class Global {
 public:
  Global() = default;
  explicit Global(T* data) : data_(data) {}
  SIMT_DEVICE T& operator[](std::int64_t i) const { return data_[i]; }
  SIMT_DEVICE explicit operator bool() const { return data_ != nullptr; }

 private:
  T* data_ = nullptr;
};

template <class T>
class Shared {
 public:
  SIMT_DEVICE explicit Shared(T* data) : data_(data) {}
  SIMT_DEVICE T& operator[](std::int64_t i) const { return data_[i]; }

 private:
  T* data_;
};

// ---- threads

class Thread {
 public:
  SIMT_DEVICE static int index() { return static_cast<int>(threadIdx.x); }
  SIMT_DEVICE static int lane() { return index() % warp_size; }
  SIMT_DEVICE static int warp() { return index() / warp_size; }
  SIMT_DEVICE static std::int64_t block() { return blockIdx.x; }
  SIMT_DEVICE static std::int64_t block_y() { return blockIdx.y; }
  SIMT_DEVICE static std::int64_t blocks() { return gridDim.x; }

  /// All threads of the block.
  SIMT_DEVICE static void sync() { __syncthreads(); }
  /// All lanes of the warp; orders their accesses to shared memory.
  SIMT_DEVICE static void sync_warp() { __syncwarp(); }
  /// Value of the lane whose number differs in the bits of `mask`; orders no accesses to memory.
  template <class T>
  SIMT_DEVICE static T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(everyone, value, mask);
  }
  template <class T>
  SIMT_DEVICE static T shuffle(T value, int from) {
    return __shfl_sync(everyone, value, from);
  }
  SIMT_DEVICE static bool any(bool value) { return __any_sync(everyone, value) != 0; }
  /// The first lane whose value is true; warp_size where none is.
  SIMT_DEVICE static int first(bool value) {
    const unsigned set = __ballot_sync(everyone, value);
    return set == 0 ? warp_size : __ffs(static_cast<int>(set)) - 1;
  }

  template <class T>
  SIMT_DEVICE static Shared<T> shared(std::int64_t begin_bytes, std::int64_t /*count*/) {
    extern __shared__ __align__(16) unsigned char memory[];
    return Shared<T>(reinterpret_cast<T*>(memory + begin_bytes));
  }
  SIMT_DEVICE static void atomic_min(const Global<std::int64_t>& at,
                                     std::int64_t i,
                                     std::int64_t value) {
    static_assert(sizeof(long long) == sizeof(std::int64_t));
    atomicMin(reinterpret_cast<long long*>(&at[i]), static_cast<long long>(value));
  }

  // ---- asynchronous copies of 16 bytes into shared memory (cp.async)

  /// Zeros arrive where `valid` is false.
  template <class T>
  SIMT_DEVICE static void copy_async(const Shared<T>& to,
                                     std::int64_t to_index,
                                     const Global<const T>& from,
                                     std::int64_t from_index,
                                     bool valid = true) {
    const auto target = static_cast<unsigned>(__cvta_generic_to_shared(&to[to_index]));
    const void* const source = valid ? &from[from_index] : &from[0];
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(target), "l"(source), "r"(bytes)
                 : "memory");
  }
  SIMT_DEVICE static void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int pending>
  SIMT_DEVICE static void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
  }

 private:
  static constexpr unsigned everyone = 0xFFFFFFFFU;
};

// ---- launches

/// What a launcher enqueues on.
struct Queue {
  cudaStream_t stream = nullptr;
  template <class T>
  Global<T> view(T* data, std::int64_t /*count*/) const {
    return Global<T>(data);
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, 1) run_kernel(const Kernel kernel) {
  kernel(Thread());
}

/// Enqueues; fails where the device refuses the configuration.
template <class Kernel>
Status launch(const Queue& queue, const Grid& grid, const Kernel& kernel) {
  static_assert(Kernel::threads % warp_size == 0);
  if (grid.x == 0 || grid.y == 0) {
    return {};
  }
  constexpr std::int64_t without_asking = 48 * 1024;
  if (grid.shared_bytes > without_asking) {
    const cudaError_t error = cudaFuncSetAttribute(run_kernel<Kernel>,
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(grid.shared_bytes));
    if (error != cudaSuccess) {
      return unsupported("cuda: " + std::to_string(grid.shared_bytes) +
                         " bytes of shared memory in a block: " + cudaGetErrorString(error));
    }
  }
  run_kernel<Kernel><<<dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)),
                       Kernel::threads,
                       static_cast<std::size_t>(grid.shared_bytes),
                       queue.stream>>>(kernel);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    return internal_error("cuda: launch of " + std::to_string(grid.x) + " x " +
                          std::to_string(grid.y) + " blocks of " + std::to_string(Kernel::threads) +
                          " threads: " + cudaGetErrorString(error));
  }
  return {};
}

}  // namespace parbuckle::simt
