#include "kernels/runtime/cpu/cpu_device.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <utility>

#include "parbuckle/units.h"

#include "kernels/runtime/cpu/cpu_stream.h"

namespace parbuckle {
namespace {

class CpuMemory final : public DeviceMemory {
 public:
  CpuMemory(void* data, std::int64_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  CpuMemory(const CpuMemory&) = delete;
  CpuMemory& operator=(const CpuMemory&) = delete;
  CpuMemory(CpuMemory&&) = delete;
  CpuMemory& operator=(CpuMemory&&) = delete;
  ~CpuMemory() override { ::munmap(data_, static_cast<std::size_t>(bytes_)); }

  [[nodiscard]] std::byte* data() const override { return data_; }
  [[nodiscard]] std::int64_t bytes() const override { return bytes_; }

 private:
  std::byte* data_;
  std::int64_t bytes_;
};

}  // namespace

Result<std::unique_ptr<Device>> CpuDevice::create() {
  return std::unique_ptr<Device>(
      new CpuDevice());  // the constructor is private: make_unique cannot
}

Result<std::unique_ptr<Stream>> CpuDevice::create_stream() {
  return CpuStream::create();
}

Result<std::unique_ptr<Event>> CpuDevice::create_event() {
  return std::unique_ptr<Event>(std::make_unique<CpuEvent>());
}

Result<std::unique_ptr<DeviceMemory>> CpuDevice::create_memory(std::int64_t bytes) {
  if (bytes <= 0) {
    return invalid("cpu memory: " + std::to_string(bytes) + " bytes asked, must be positive");
  }
  return map_zeroed_memory(bytes);
}

Result<std::unique_ptr<DeviceMemory>> map_zeroed_memory(std::int64_t bytes) {
  void* const data = ::mmap(nullptr,
                            static_cast<std::size_t>(bytes),
                            PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS,
                            -1,
                            0);
  if (data == MAP_FAILED) {
    return exhausted("cpu memory: " + format_size(bytes) + " not given: " + std::strerror(errno));
  }
  return std::unique_ptr<DeviceMemory>(std::make_unique<CpuMemory>(data, bytes));
}

}  // namespace parbuckle
