// Measuring this machine once: capacities are read at every start, rates and program times are kept on disk.
#pragma once

#include <cstdint>
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

/// --hardware FILE, or which tiers, lanes and devices this machine has, with nominal rates: what a budget needs to be judged.
Result<Hardware> find_hardware(const MemoryConfig& config, const Machine& machine);

/// Replaces the nominal rates of find_hardware() by measured ones and adds the times of the workloads' programs, in at most `room`
/// bytes of memory; only what the cache lacks is measured. --hardware FILE stays as it is. `note` says what was measured.
Status measure_hardware(const MemoryConfig& config,
                        Machine& machine,
                        const std::vector<Measured>& workloads,
                        std::int64_t room,
                        Hardware& hardware,
                        std::string* note);

}  // namespace parbuckle
