#include "kernels/runtime/cuda/handle.h"

namespace parbuckle {

Status cuda_status(cudaError_t error, const std::string& asked) {
  if (error == cudaSuccess) {
    return {};
  }
  (void)cudaGetLastError();  // told here, so that the next call does not tell it again
  const std::string text =
      asked + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")";
  if (error == cudaErrorMemoryAllocation) {
    return exhausted(text);
  }
  if (error == cudaErrorNoDevice || error == cudaErrorInvalidDevice ||
      error == cudaErrorInsufficientDriver) {
    return unsupported(text + "; `parbuckle devices` lists what is there");
  }
  return internal_error(text);
}

}  // namespace parbuckle
