// A device made of this host's cores and memory that behaves like an accelerator: memory of its own with a hard limit,
// streams that run the CPU's operators, and a link whose copies take as long as they are told to. Schedules are tested,
// taught and measured on it; its figures say nothing about a GPU.
#pragma once

#include <memory>
#include <string>

#include "kernels/runtime/device.h"
#include "kernels/runtime/emulated/emulated_options.h"

namespace parbuckle {

class EmulatedLink;
class DeviceCapacity;

class EmulatedDevice final : public Device {
 public:
  /// REQUIRES: options from parse_emulated or of its ranges.
  static Result<std::unique_ptr<Device>> create(const EmulatedOptions& options);
  ~EmulatedDevice() override;
  EmulatedDevice(const EmulatedDevice&) = delete;
  EmulatedDevice& operator=(const EmulatedDevice&) = delete;
  EmulatedDevice(EmulatedDevice&&) = delete;
  EmulatedDevice& operator=(EmulatedDevice&&) = delete;

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] bool shares_host_memory() const override { return false; }
  [[nodiscard]] bool host_addressable() const override { return true; }
  /// Streams, memory and events may outlive the device.
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;
  Result<std::unique_ptr<DeviceMemory>> create_memory(std::int64_t bytes) override;

 private:
  explicit EmulatedDevice(const EmulatedOptions& options);

  std::string name_;
  std::shared_ptr<EmulatedLink> link_;
  std::shared_ptr<DeviceCapacity> capacity_;
  double speed_;
};

}  // namespace parbuckle
