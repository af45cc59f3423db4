// Owners of CUDA's objects, and its errors as ours.
#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "parbuckle/status.h"

namespace parbuckle {

/// Destroys what CUDA made; an error there has nobody to tell: the work's own errors came earlier.
template <auto destroy>
struct CudaDeleter {
  template <class T>
  void operator()(T* object) const {
    (void)destroy(object);
  }
};

template <class T, auto destroy>
using CudaHandle = std::unique_ptr<std::remove_pointer_t<T>, CudaDeleter<destroy>>;

using CudaStreamHandle = CudaHandle<cudaStream_t, &cudaStreamDestroy>;
using CudaEventHandle = CudaHandle<cudaEvent_t, &cudaEventDestroy>;
using CudaMemoryHandle = CudaHandle<void*, &cudaFree>;
using CudaPinnedHandle = CudaHandle<void*, &cudaHostUnregister>;

/// Ok, or an error that says what was asked: "cuda:0: 96 GiB of device memory: out of memory (cudaErrorMemoryAllocation)".
Status cuda_status(cudaError_t error, const std::string& asked);

}  // namespace parbuckle
