// How much host memory this process may take: the least of what is free and what its control groups allow.
#pragma once

#include <filesystem>

#include "parbuckle/status.h"

#include "engine/base/control_groups.h"
#include "engine/base/hardware.h"

namespace parbuckle {

/// Files that describe memory and control groups; given so that tests can lay them out.
struct MemoryFiles {
  std::filesystem::path meminfo = "/proc/meminfo";
  ControlGroupFiles groups;
};

/// MemTotal and MemAvailable, narrowed by memory.max and memory.high (v2) or memory.limit_in_bytes (v1) of the own control group
/// and all its ancestors, each less what that group uses. `limited_by` names the one that rules.
Result<TierCapacity> host_memory(const MemoryFiles& files = {});

}  // namespace parbuckle
