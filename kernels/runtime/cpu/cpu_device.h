// The `cpu` device: the host computes, its memory is the compute memory, a stream is a thread.
#pragma once

#include <memory>

#include "kernels/runtime/device.h"

namespace parbuckle {

class CpuDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> create();

  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] bool shares_host_memory() const override { return true; }
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;
  Result<std::unique_ptr<DeviceMemory>> create_memory(std::int64_t bytes) override;

 private:
  CpuDevice() = default;
};

/// Page-aligned zeros of this process; resource_exhausted where the system gives no more.
Result<std::unique_ptr<DeviceMemory>> map_zeroed_memory(std::int64_t bytes);

}  // namespace parbuckle
