// The memories that a step runs in, by tier.
#pragma once

#include <cstddef>

#include "engine/base/plan.h"

namespace parbuckle {

struct ArenaAddresses {
  std::byte* host = nullptr;    // null where the plan has no host arena
  std::byte* device = nullptr;  // null where the host computes

  [[nodiscard]] std::byte* of(Tier tier) const { return tier == Tier::device ? device : host; }
  [[nodiscard]] std::byte* of(const Allocation& allocation) const {
    return of(allocation.tier) + allocation.offset;
  }
};

/// Where the plan's tasks run.
inline Tier compute_tier(const Plan& plan) {
  return plan.device_arena_bytes > 0 ? Tier::device : Tier::host;
}

/// Where this one does: those of the host's lane in host memory.
inline Tier tier_of(const Plan& plan, const Task& task) {
  return task.lane == LaneKind::host_compute ? Tier::host : compute_tier(plan);
}

inline std::int64_t arena_bytes(const Plan& plan, Tier tier) {
  return tier == Tier::device ? plan.device_arena_bytes : plan.host_arena_bytes;
}

}  // namespace parbuckle
