#include "engine/train/machine.h"

#include <utility>

#include "cpu/op_table.h"
#include "cpu/parallel/threads.h"
#include "kernels/runtime/cpu/cpu_device.h"

namespace parbuckle {

Result<std::unique_ptr<Machine>> Machine::create(std::int64_t threads) {
  if (threads < 0 || threads > 4096) {
    return invalid("--threads " + std::to_string(threads) +
                   ": expected 0 (all this process may use) to 4096");
  }
  const int count =
      threads > 0 ? static_cast<int>(threads) : cpu::thread_count(cpu::thread_limits());
  std::unique_ptr<Machine> machine(new Machine);
  PARBUCKLE_ASSIGN(machine->context_, cpu::Context::create(count));
  PARBUCKLE_ASSIGN(machine->device_, CpuDevice::create());
  return machine;
}

OpTable Machine::ops() {
  return cpu::cpu_op_table(*context_);
}

}  // namespace parbuckle
