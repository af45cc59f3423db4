// The memory that a run lives in: the host arena of the plan's exact size, and the pool on the drive.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/plan.h"
#include "offload/storage/pool.h"
#include "offload/tier/arena.h"

namespace parbuckle {

struct Tiers {
  std::optional<Arena> arena;
  std::unique_ptr<Pool> pool;  // null where the plan keeps nothing on the drive

  /// Takes both. `warnings` gains a line for everything that was asked for and not given.
  static Result<Tiers> take(const Plan& plan,
                            const std::string& nvme_path,
                            std::vector<std::string>* warnings);
};

}  // namespace parbuckle
