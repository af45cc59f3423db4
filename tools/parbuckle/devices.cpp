// parbuckle devices: what computes here, and what is missing for the rest, by package name.
#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>

#include "parbuckle/units.h"

#include "kernels/runtime/discover.h"
#include "tools/parbuckle/verbs.h"

namespace parbuckle::tool {
namespace {

std::string capability(const CudaDeviceInfo& device) {
  return std::to_string(device.capability_major) + "." + std::to_string(device.capability_minor);
}

/// Whether kernels of `built` ("80,89") run on the device: same major capability, minor not above the device's.
bool runs_on(const std::string& built, const CudaDeviceInfo& device) {
  std::size_t begin = 0;
  while (begin < built.size()) {
    const std::size_t end = std::min(built.find(',', begin), built.size());
    const int code = std::stoi(built.substr(begin, end - begin));
    if (code / 10 == device.capability_major && code % 10 <= device.capability_minor) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

void print_cuda(const CudaDiscovery& found, const std::string& built) {
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    const CudaDeviceInfo& device = found.devices[i];
    std::printf(
        "cuda:%zu   %s, %s, compute capability %s%s\n",
        i,
        device.name.c_str(),
        format_size(device.bytes).c_str(),
        capability(device).c_str(),
        built.empty() || runs_on(built, device) ? "" : ": this build has no kernels for it");
  }
  if (found.devices.empty()) {
    std::printf("cuda     none: %s\n", found.why_none.c_str());
  } else {
    std::printf("driver   runs CUDA up to %d.%d\n",
                found.driver_version / 1000,
                found.driver_version % 1000 / 10);
  }
  if (built.empty()) {
    std::puts(
        "kernels  none in this build: it was made without a CUDA toolkit (Debian: package "
        "nvidia-cuda-toolkit;\n         NVIDIA: cuda-toolkit-13-0); with one, build again with "
        "-DPARBUCKLE_CUDA_BACKEND=on");
  } else {
    std::printf(
        "kernels  of this build: sm_%s (verified on the host; `train` computes on the cpu)\n",
        built.c_str());
  }
}

}  // namespace

Status run_devices(const Arguments& arguments) {
  if (!arguments.empty()) {
    std::puts("usage: parbuckle devices    (lists compute devices and what is missing)");
    return arguments[0] == "--help"
               ? Status()
               : invalid("parbuckle devices: takes no arguments, found '" + arguments[0] + "'");
  }
  std::printf("cpu      %u processors\n", std::thread::hardware_concurrency());
  print_cuda(discover_cuda(), cuda_capabilities_built());
  return {};
}

}  // namespace parbuckle::tool
