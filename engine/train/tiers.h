// The memory that a run lives in: arenas of the plan's exact sizes, and the pool on the drive.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/plan.h"
#include "kernels/runtime/device.h"
#include "offload/storage/pool.h"
#include "offload/tier/arena.h"

namespace parbuckle {

struct Tiers {
  std::optional<Arena> arena;
  std::unique_ptr<DeviceMemory> device;  // null where the host computes
  std::unique_ptr<Pool> pool;            // null where the plan keeps nothing on the drive

  /// Takes what the largest of the plans needs; they share it. `warnings` gains a line for everything that was asked for and not given.
  static Result<Tiers> take(std::span<const Plan* const> plans,
                            Device& on,
                            const std::string& nvme_path,
                            std::vector<std::string>* warnings);
};

}  // namespace parbuckle
