// How long each program takes on this device: run it a few times on zeros. No step of a run is timed for a plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parbuckle/status.h"
#include "parbuckle/units.h"

#include "engine/base/hardware.h"
#include "engine/base/op.h"
#include "engine/base/program.h"
#include "engine/base/workload.h"
#include "kernels/runtime/device.h"

namespace parbuckle {

/// What is timed: all that a device runs, or the updates alone, which the host's lane may run beside one.
enum class Timed { all, updates };

struct CalibrationScope {
  Timed what = Timed::all;
  std::span<const ProgramTime> known;  // families that need no timing
  std::int64_t room = 0;               // bytes of memory
};

/// Seconds of every such family that fits in the room, at its smallest, middle and largest ShapeKey, the ones between interpolated
/// in rows. Takes memory for one program at a time and gives it back before it returns. A family that does not fit is in no plan
/// of that size.
Result<std::vector<ProgramTime>> calibrate(const CalibrationScope& scope,
                                           const Workload& workload,
                                           std::span<const Program> programs,
                                           OpTable ops,
                                           Device& device);

/// The rates that programs without a measurement are predicted from: of a matrix product of 512^3 and of a copy.
struct DeviceRates {
  double flops_per_s = 0;
  double memory_bytes_per_s = 0;  // read + write
};
/// What measure_rates() takes of memory to copy 64 MiB; with less it copies less, and caches may flatter the rate.
inline constexpr std::int64_t rates_room = 128 * mib;
Result<DeviceRates> measure_rates(std::int64_t room, OpTable ops, Device& device);

}  // namespace parbuckle
