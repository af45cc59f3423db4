// Measuring this machine once: capacities are read at every start, rates and program times are kept on disk.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "parbuckle/config.h"
#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/workload.h"
#include "engine/train/machine.h"

namespace parbuckle {

/// A workload with its programs, as lowering returned them.
struct Measured {
  const Workload* workload = nullptr;
  std::span<const Program> programs;
};

/// --hardware FILE, or this machine: tiers and lanes from offload/probe, the device's rates, and the times of the workloads'
/// programs (measured only where the cache lacks them). `note` says what was measured.
Result<Hardware> hardware_for(const MemoryConfig& config,
                              Machine& machine,
                              const std::vector<Measured>& workloads,
                              std::string* note);

}  // namespace parbuckle
