// The device operators on the harness, as a table whose run() also reports what the kernels did wrong and what they found
// wrong in the data.
#pragma once

#include <array>
#include <cstdint>
#include <simt/machine.h>

#include "engine/base/op.h"
#include "kernels/op_table.h"

namespace parbuckle {

/// Not movable: its table points to it.
class SimtTable {
 public:
  explicit SimtTable(std::uint64_t seed);
  SimtTable(const SimtTable&) = delete;
  SimtTable& operator=(const SimtTable&) = delete;
  SimtTable(SimtTable&&) = delete;
  SimtTable& operator=(SimtTable&&) = delete;
  ~SimtTable() = default;

  OpTable table();

 private:
  static Result<std::int64_t> prepare(void* state, const OpShape& op);
  static Status run(void* state, const OpShape& op, const OpArgs& args);

  simt::Machine machine_;
  cuda::DataFaults faults_;
  cuda::Context context_;
  OpTable kernels_;
};

}  // namespace parbuckle
