// How long each program takes on this device: run it a few times on zeros. No step of a run is timed for a plan.
#pragma once

#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/op.h"
#include "engine/base/program.h"
#include "engine/base/workload.h"
#include "kernels/runtime/device.h"

namespace parbuckle {

/// What is timed: all that a device runs, or the updates alone, which the host's lane may run beside one.
enum class Timed { all, updates };

/// Seconds of every such family at its smallest, middle and largest ShapeKey, the ones between interpolated in rows. Takes
/// memory for one program at a time, at most what the largest needs; gives it back before it returns.
Result<std::vector<ProgramTime>> calibrate(Timed what,
                                           const Workload& workload,
                                           std::span<const Program> programs,
                                           OpTable ops,
                                           Device& device);

/// Matrix products of 512^3 and a copy of 64 MiB: the rates that programs without a measurement are predicted from.
struct DeviceRates {
  double flops_per_s = 0;
  double memory_bytes_per_s = 0;  // read + write
};
Result<DeviceRates> measure_rates(OpTable ops, Device& device);

}  // namespace parbuckle
