#include "kernels/runtime/discover.h"

#include <array>
#include <dlfcn.h>
#include <memory>

namespace parbuckle {
namespace {

// The driver's interface (cuda.h), by hand: its header comes with the toolkit, which is not needed to ask.
constexpr int success = 0;
constexpr int attribute_capability_major = 75;
constexpr int attribute_capability_minor = 76;

struct Driver {
  int (*init)(unsigned flags) = nullptr;
  int (*version)(int* version) = nullptr;
  int (*count)(int* count) = nullptr;
  int (*device)(int* device, int ordinal) = nullptr;
  int (*name)(char* name, int length, int device) = nullptr;
  int (*memory)(std::size_t* bytes, int device) = nullptr;
  int (*attribute)(int* value, int attribute, int device) = nullptr;
};

template <class F>
bool find(void* library, const char* symbol, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, symbol));
  return function != nullptr;
}

bool find_all(void* library, Driver& driver) {
  return find(library, "cuInit", driver.init) &&
         find(library, "cuDriverGetVersion", driver.version) &&
         find(library, "cuDeviceGetCount", driver.count) &&
         find(library, "cuDeviceGet", driver.device) &&
         find(library, "cuDeviceGetName", driver.name) &&
         find(library, "cuDeviceTotalMem_v2", driver.memory) &&
         find(library, "cuDeviceGetAttribute", driver.attribute);
}

CudaDeviceInfo describe(const Driver& driver, int ordinal) {
  CudaDeviceInfo info;
  int device = 0;
  driver.device(&device, ordinal);
  std::array<char, 256> name{};
  driver.name(name.data(), static_cast<int>(name.size()) - 1, device);
  info.name = name.data();
  std::size_t bytes = 0;
  driver.memory(&bytes, device);
  info.bytes = static_cast<std::int64_t>(bytes);
  driver.attribute(&info.capability_major, attribute_capability_major, device);
  driver.attribute(&info.capability_minor, attribute_capability_minor, device);
  return info;
}

}  // namespace

CudaDiscovery discover_cuda() {
  CudaDiscovery found;
  struct Close {
    void operator()(void* library) const { ::dlclose(library); }
  };
  const std::unique_ptr<void, Close> library(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  Driver driver;
  if (library == nullptr) {
    found.why_none =
        "no NVIDIA driver: libcuda.so.1 was not found (Debian: package nvidia-driver with "
        "libcuda1; Ubuntu: nvidia-driver-XXX)";
    return found;
  }
  if (!find_all(library.get(), driver)) {
    found.why_none = "the NVIDIA driver is too old: it lacks calls of CUDA 3.2";
    return found;
  }
  if (const int error = driver.init(0); error != success) {
    found.why_none = "the NVIDIA driver does not start: cuInit gives error " +
                     std::to_string(error) +
                     (error == 100 ? " (no device)" : "; `nvidia-smi` may say more");
    return found;
  }
  found.driver = true;
  driver.version(&found.driver_version);
  int count = 0;
  driver.count(&count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    found.devices.push_back(describe(driver, ordinal));
  }
  found.why_none = count == 0 ? "the NVIDIA driver runs, but sees no GPU" : "";
  return found;
}

std::string cuda_capabilities_built() {
  return PARBUCKLE_CUDA_CAPABILITIES;
}

}  // namespace parbuckle
