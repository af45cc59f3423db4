#include "engine/train/machine.h"

#include <string_view>
#include <utility>

#include "cpu/op_table.h"
#include "cpu/parallel/threads.h"
#include "kernels/runtime/cpu/cpu_device.h"
#include "kernels/runtime/emulated/emulated_device.h"

namespace parbuckle {

namespace {

Result<std::optional<EmulatedOptions>> emulated_options(const std::string& device) {
  constexpr std::string_view prefix = "emulated:";
  if (device == "cpu") {
    return std::optional<EmulatedOptions>();
  }
  if (!device.starts_with(prefix)) {
    return invalid("--device " + device +
                   ": expected cpu, or emulated:memory=512MiB,link=1GB/s and what follows it");
  }
  PARBUCKLE_ASSIGN(const EmulatedOptions options,
                   parse_emulated(std::string_view(device).substr(prefix.size())));
  return std::optional(options);
}

Result<int> team_size(std::int64_t threads, const std::optional<EmulatedOptions>& emulated) {
  const int most = cpu::thread_count(cpu::thread_limits());
  if (emulated) {
    if (threads > 0 || emulated->cores > most) {
      return invalid("--device emulated: cores=" + std::to_string(emulated->cores) +
                     (threads > 0 ? " and --threads: give cores alone"
                                  : ", this process may use " + std::to_string(most)));
    }
    return emulated->cores;
  }
  if (threads < 0 || threads > 4096) {
    return invalid("--threads " + std::to_string(threads) +
                   ": expected 0 (all this process may use) to 4096");
  }
  return threads > 0 ? static_cast<int>(threads) : most;
}

}  // namespace

Result<std::unique_ptr<Machine>> Machine::create(const MemoryConfig& config) {
  std::unique_ptr<Machine> machine(new Machine);
  PARBUCKLE_ASSIGN(machine->emulated_, emulated_options(config.device));
  PARBUCKLE_ASSIGN(const int threads, team_size(config.threads, machine->emulated_));
  const bool whole = !machine->emulated_ || threads == cpu::thread_count(cpu::thread_limits());
  PARBUCKLE_ASSIGN(machine->context_,
                   cpu::Context::create(
                       {.threads = threads, .cores = {.first = 0, .count = whole ? 0 : threads}}));
  if (machine->emulated_) {
    PARBUCKLE_TRY(machine->add_host());
    PARBUCKLE_ASSIGN(machine->device_, EmulatedDevice::create(*machine->emulated_));
  } else {
    PARBUCKLE_ASSIGN(machine->device_, CpuDevice::create());
  }
  return machine;
}

/// On the cores that the emulated device leaves.
Status Machine::add_host() {
  const int left = cpu::thread_count(cpu::thread_limits()) - threads();
  if (left < 1) {
    return {};
  }
  PARBUCKLE_ASSIGN(
      host_context_,
      cpu::Context::create({.threads = left, .cores = {.first = threads(), .count = left}}));
  PARBUCKLE_ASSIGN(host_, CpuDevice::create());
  return {};
}

OpTable Machine::host_ops() {
  return cpu::cpu_op_table(*host_context_);
}

OpTable Machine::ops() {
  return cpu::cpu_op_table(*context_);
}

}  // namespace parbuckle
