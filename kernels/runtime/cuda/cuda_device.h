// The `cuda:N` device: memory and streams of one GPU through the CUDA runtime.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/runtime/cuda/handle.h"
#include "kernels/runtime/device.h"

namespace parbuckle {

/// Host memory that copies can reach without staging, as long as this lives. The range stays its owner's.
class PinnedRange {
 public:
  explicit PinnedRange(void* begin) : registered_(begin) {}

 private:
  CudaPinnedHandle registered_;
};

class CudaDevice final : public Device {
 public:
  /// Fails with unsupported where there is no such GPU or its driver is too old.
  static Result<std::unique_ptr<Device>> create(int ordinal);

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] bool shares_host_memory() const override { return false; }
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;
  Result<std::unique_ptr<DeviceMemory>> create_memory(std::int64_t bytes) override;

  /// Registers [begin, begin + bytes) of host memory with the driver: the host arena, once.
  Result<PinnedRange> pin(void* begin, std::int64_t bytes);
  /// Bytes that everything on the device uses, this process's context and libraries included.
  Result<std::int64_t> used_bytes();

 private:
  CudaDevice(int ordinal, std::string name) : ordinal_(ordinal), name_(std::move(name)) {}
  /// Makes this the calling thread's device.
  Status select() const;

  int ordinal_;
  std::string name_;
};

}  // namespace parbuckle
