// Which compute devices this machine has, as the drivers tell it. Needs no toolkit: drivers are looked up at run time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace parbuckle {

struct CudaDeviceInfo {
  std::string name;          // "NVIDIA H200"
  std::int64_t bytes = 0;    // of device memory
  int capability_major = 0;  // 9 of 9.0
  int capability_minor = 0;
};

struct CudaDiscovery {
  bool driver = false;     // libcuda.so.1 is there and starts
  int driver_version = 0;  // 12040: the newest CUDA that the driver runs is 12.4
  std::string why_none;    // empty where devices are listed
  std::vector<CudaDeviceInfo> devices;
};

CudaDiscovery discover_cuda();

/// Compute capabilities that this build has kernels for ("80,89,90,120"); empty where it was built without a toolkit.
std::string cuda_capabilities_built();

}  // namespace parbuckle
