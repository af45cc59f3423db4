// Who held each address of an arena last: what a visit must wait for before it takes its range over.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/base/hardware.h"
#include "offload/plan/schedule.h"

namespace parbuckle {

/// What must be over before a range may be used. Lanes are first in, first out: the last transfer of each is enough.
struct Ready {
  std::int32_t after_task = -1;  // of the lane that works in this arena
  std::array<std::int32_t, lane_kind_count> after{-1, -1, -1, -1, -1, -1};  // transfers by LaneKind
};

/// What frees the range of a visit: its last task, and the last transfer that takes its content away.
struct Release {
  std::int32_t task = -1;
  LaneKind lane = LaneKind::nvme_write;
  std::int32_t transfer = -1;
};

/// One range of tasks during which a visit holds its addresses.
struct Tenure {
  std::int32_t visit = 0;
  std::size_t range = 0;  // 1: the second of two
  TaskRange tasks;
};

/// REQUIRES: every release() is set before walk(), every ready() asked for after it.
class Takeover {
 public:
  /// Both must outlive this; `offset` is by visit. Resident visits take part in nothing.
  Takeover(const std::vector<Visit>& visits, const std::vector<std::int64_t>& offset)
      : visits_(visits), offset_(offset), releases_(visits.size()), ready_(visits.size()) {}

  Release& release(std::int32_t visit, std::size_t range);
  /// Walks the tenures in time and returns them.
  std::vector<Tenure> walk();
  [[nodiscard]] const Ready& ready(std::int32_t visit, std::size_t range) const;

 private:
  struct Holder {
    std::int64_t end = 0;
    std::int32_t visit = 0;
    std::size_t range = 0;
  };
  Ready take_over(const Tenure& tenure);

  const std::vector<Visit>& visits_;
  const std::vector<std::int64_t>& offset_;
  std::vector<std::array<Release, 2>> releases_;  // per visit and range
  std::vector<std::array<Ready, 2>> ready_;
  std::map<std::int64_t, Holder> holders_;  // by offset
};

}  // namespace parbuckle
