// The compute side of a run on this machine: the CPU device with its operators.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "parbuckle/status.h"

#include "cpu/ops/context.h"
#include "engine/base/op.h"
#include "kernels/runtime/device.h"

namespace parbuckle {

class Machine {
 public:
  /// `threads` 0: as many as affinity, control group and OMP_NUM_THREADS allow.
  static Result<std::unique_ptr<Machine>> create(std::int64_t threads);

  [[nodiscard]] OpTable ops();
  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] int threads() const { return context_->team().threads(); }
  /// Device, library, instruction set and threads: part of the numeric signature.
  [[nodiscard]] std::string signature() const { return context_->signature(); }

 private:
  Machine() = default;

  std::unique_ptr<cpu::Context> context_;
  std::unique_ptr<Device> device_;
};

}  // namespace parbuckle
