// The compute side of a run: a device and its operators. The operators are the CPU's, on `cpu` and on emulated devices alike.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "parbuckle/config.h"
#include "parbuckle/status.h"

#include "cpu/ops/context.h"
#include "engine/base/op.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/emulated/emulated_options.h"

namespace parbuckle {

class Machine {
 public:
  /// config.threads 0: as many as affinity, control group and OMP_NUM_THREADS allow; an emulated device has its cores.
  static Result<std::unique_ptr<Machine>> create(const MemoryConfig& config);

  [[nodiscard]] OpTable ops();
  [[nodiscard]] Device& device() { return *device_; }
  /// The host beside a device with memory of its own, on cores that the device has not: null where there are none.
  [[nodiscard]] Device* host() { return host_.get(); }
  [[nodiscard]] bool has_host() const { return host_ != nullptr; }
  /// REQUIRES: host() is not null.
  [[nodiscard]] OpTable host_ops();
  [[nodiscard]] int host_threads() const { return host_context_->team().threads(); }
  /// What the device is told to be; empty: the host computes at its own speed, in its own memory.
  [[nodiscard]] const std::optional<EmulatedOptions>& emulated() const { return emulated_; }
  [[nodiscard]] int threads() const { return context_->team().threads(); }
  /// Library, instruction set and threads: part of the numeric signature. An emulated device changes where bytes are and when
  /// they move, never what they are.
  [[nodiscard]] std::string signature() const { return context_->signature(); }

 private:
  Machine() = default;

  Status add_host();

  std::unique_ptr<cpu::Context> context_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<cpu::Context> host_context_;
  std::unique_ptr<Device> host_;
  std::optional<EmulatedOptions> emulated_;
};

}  // namespace parbuckle
