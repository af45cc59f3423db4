// Fourth pass: addresses. Visits whose time in memory overlaps get disjoint ranges of the arena.
//
// A visit must be in memory during its tasks. Where memory allows it is given more: room to be fetched ahead of its first
// task, and room to be drained after its last one. Without that room a fetch or a drain stands between two tasks.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/plan/schedule.h"

namespace parbuckle {

struct Placement {
  std::vector<std::int64_t> offset;  // per visit, multiple of page_bytes
  std::int64_t arena_bytes = 0;      // end of the highest visit
  std::int64_t resident_bytes = 0;   // resident visits lie in [0, resident_bytes)
};

/// The tightest placement this pass finds, or the first that needs no more than `enough`: nothing is fetched ahead.
Placement place_tight(const Schedule& schedule, std::int64_t enough = 0);

/// A placement within `capacity` bytes that fetches ahead as far as memory allows, at most `ahead` bytes at a time; where there
/// is no room for that, place_tight(schedule, capacity), which may be larger than `capacity`.
Placement place(const Schedule& schedule,
                std::int32_t tasks,
                std::int64_t capacity,
                std::int64_t ahead);

/// Bytes in memory during each task, without room to fetch ahead: no placement is smaller than its largest value.
std::vector<std::int64_t> live_bytes(const std::vector<Visit>& visits, std::int32_t tasks);

/// Bytes that a typical unit visit fetches or drains; one step of `Choice::prefetch`.
std::int64_t visit_traffic_bytes(const Schedule& schedule, const UseTable& uses);

}  // namespace parbuckle
