// The CUDA operators as a table that tests call with operands in host memory. Two definitions, each binary links one:
// tests/support/simt runs them on the harness, tests/support/gpu on the first GPU of the machine.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/base/op.h"

namespace parbuckle {

/// run() returns when the operator has run; it reports what kernels found wrong in data and, on the harness, what the kernels
/// themselves did wrong.
class DeviceTable {
 public:
  /// `order` draws the order of warps on the harness; a GPU has its own.
  explicit DeviceTable(std::uint64_t order);
  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;
  DeviceTable(DeviceTable&&) = delete;
  DeviceTable& operator=(DeviceTable&&) = delete;
  ~DeviceTable();

  OpTable table();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace parbuckle
