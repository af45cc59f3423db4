#include "offload/plan/place.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

using Ranges = std::array<TaskRange, 2>;

// Visits with the tasks during which their range of the arena is theirs.
struct Layout {
  std::vector<Ranges> ranges;
  explicit Layout(const Schedule& schedule) {
    ranges.reserve(schedule.visits.size());
    for (const Visit& visit : schedule.visits) {
      // One range twice overlaps what one range overlaps.
      ranges.push_back(visit.held_count == 2 ? visit.held : Ranges{visit.held[0], visit.held[0]});
    }
  }
};

bool overlap(TaskRange a, TaskRange b) {
  return a.first <= b.last && b.first <= a.last;
}

bool overlap(const Ranges& a, const Ranges& b) {
  return overlap(a[0], b[0]) || overlap(a[0], b[1]) || overlap(a[1], b[0]) || overlap(a[1], b[1]);
}

struct Placed {
  std::int64_t offset = 0;
  std::int64_t end = 0;
  Ranges ranges;
};

// First fit in the given order above `base`: every visit at the lowest offset that is free during its ranges.
Placement first_fit(const Schedule& schedule,
                    const Layout& layout,
                    const std::vector<std::int32_t>& order) {
  Placement result;
  result.offset.assign(schedule.visits.size(), 0);
  for (std::size_t v = 0; v < schedule.visits.size(); ++v) {
    if (schedule.visits[v].resident) {
      result.offset[v] = result.resident_bytes;
      result.resident_bytes += schedule.visits[v].bytes;
    }
  }
  result.arena_bytes = result.resident_bytes;
  std::vector<Placed> placed;  // by offset
  placed.reserve(order.size());
  for (const std::int32_t v : order) {
    const std::int64_t bytes = schedule.visits[at(v)].bytes;
    std::int64_t offset = result.resident_bytes;
    for (const Placed& other : placed) {
      if (other.offset - offset >= bytes) {
        break;
      }
      if (other.end > offset && overlap(layout.ranges[at(v)], other.ranges)) {
        offset = other.end;
      }
    }
    result.offset[at(v)] = offset;
    result.arena_bytes = std::max(result.arena_bytes, offset + bytes);
    const Placed now{offset, offset + bytes, layout.ranges[at(v)]};
    placed.insert(
        std::upper_bound(placed.begin(),
                         placed.end(),
                         now,
                         [](const Placed& a, const Placed& b) { return a.offset < b.offset; }),
        now);
  }
  return result;
}

std::int64_t tasks_held(const Ranges& ranges) {
  const std::int64_t first = ranges[0].last - ranges[0].first + 1;
  const bool twice = ranges[0].first == ranges[1].first;
  return first + (twice ? 0 : ranges[1].last - ranges[1].first + 1);
}

// Two orders that fragment differently: large visits first, and long ones first. The lower arena wins; the second order is
// left out where the first needs no more than `enough`.
Placement pack(const Schedule& schedule, const Layout& layout, std::int64_t enough) {
  std::vector<std::int32_t> order;
  for (std::size_t v = 0; v < schedule.visits.size(); ++v) {
    if (!schedule.visits[v].resident) {
      order.push_back(static_cast<std::int32_t>(v));
    }
  }
  const auto bytes = [&](std::int32_t v) { return schedule.visits[at(v)].bytes; };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return bytes(a) > bytes(b);
  });
  const Placement by_size = first_fit(schedule, layout, order);
  if (by_size.arena_bytes <= enough) {
    return by_size;
  }
  const auto area = [&](std::int32_t v) { return tasks_held(layout.ranges[at(v)]); };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return area(a) > area(b);
  });
  const Placement by_time = first_fit(schedule, layout, order);
  return by_time.arena_bytes < by_size.arena_bytes ? by_time : by_size;
}

void add_bytes(std::vector<std::int64_t>& live, TaskRange range, std::int64_t bytes) {
  for (std::int32_t task = range.first; task <= range.last; ++task) {
    live[at(task)] += bytes;
  }
}

// Grows ranges into memory that is free: drains first (a task waits for memory that is still being drained), then fetches in
// order of need.
class Extension {
 public:
  Extension(const Schedule& schedule, std::int32_t tasks, std::int64_t capacity)
      : schedule_(schedule),
        capacity_(capacity),
        live_(live_bytes(schedule.visits, tasks)),
        layout_(schedule) {
    for (std::size_t v = 0; v < schedule.visits.size(); ++v) {
      const Visit& visit = schedule.visits[v];
      if (!visit.fetches.empty()) {
        fetched_.push_back(static_cast<std::int32_t>(v));
      }
      if (!visit.drains.empty()) {
        drained_.push_back(static_cast<std::int32_t>(v));
      }
    }
    const auto held = [&](std::int32_t v) { return schedule.visits[at(v)].held[0]; };
    std::stable_sort(fetched_.begin(), fetched_.end(), [&](std::int32_t a, std::int32_t b) {
      return held(a).first < held(b).first;
    });
    std::stable_sort(drained_.begin(), drained_.end(), [&](std::int32_t a, std::int32_t b) {
      return held(a).last < held(b).last;
    });
  }

  void drains(std::int64_t behind) {
    std::size_t until = 0;
    std::int64_t window = 0;
    for (std::size_t i = 0; i < drained_.size(); ++i) {
      // Until the task after which `behind` more bytes have been drained.
      while (until + 1 < drained_.size() && window <= behind) {
        ++until;
        window += schedule_.visits[at(drained_[until])].bytes;
      }
      const std::int32_t limit = until + 1 < drained_.size()
                                     ? schedule_.visits[at(drained_[until])].held[0].last
                                     : static_cast<std::int32_t>(live_.size()) - 1;
      grow_end(drained_[i], limit);
      window -= i + 1 < drained_.size() ? schedule_.visits[at(drained_[i + 1])].bytes : 0;
    }
  }

  void fetches(std::int64_t ahead) {
    std::size_t from = 0;
    std::int64_t window = 0;  // bytes of fetches from..i-1
    for (std::size_t i = 0; i < fetched_.size(); ++i) {
      while (from + 1 < i && window > ahead) {
        window -= schedule_.visits[at(fetched_[from])].bytes;
        ++from;
      }
      const std::int32_t limit = from == 0 ? 0 : schedule_.visits[at(fetched_[from])].held[0].first;
      grow_begin(fetched_[i], limit);
      window += schedule_.visits[at(fetched_[i])].bytes;
    }
  }

  [[nodiscard]] const Layout& layout() const { return layout_; }

 private:
  void grow_end(std::int32_t v, std::int32_t limit) {
    TaskRange& range = layout_.ranges[at(v)][0];
    const std::int64_t bytes = schedule_.visits[at(v)].bytes;
    while (range.last < limit && live_[at(range.last + 1)] + bytes <= capacity_) {
      live_[at(++range.last)] += bytes;
    }
    layout_.ranges[at(v)][1] = range;
  }

  void grow_begin(std::int32_t v, std::int32_t limit) {
    TaskRange& range = layout_.ranges[at(v)][0];
    const std::int64_t bytes = schedule_.visits[at(v)].bytes;
    while (range.first > limit && live_[at(range.first - 1)] + bytes <= capacity_) {
      live_[at(--range.first)] += bytes;
    }
    layout_.ranges[at(v)][1] = range;
  }

  const Schedule& schedule_;
  std::int64_t capacity_;
  std::vector<std::int64_t> live_;
  Layout layout_;
  std::vector<std::int32_t> fetched_;  // in order of need
  std::vector<std::int32_t> drained_;  // in order of last use
};

}  // namespace

std::vector<std::int64_t> live_bytes(const std::vector<Visit>& visits, std::int32_t tasks) {
  std::vector<std::int64_t> live(at(tasks), 0);
  for (const Visit& visit : visits) {
    for (const TaskRange range : visit.ranges()) {
      add_bytes(live, range, visit.bytes);
    }
  }
  return live;
}

Placement place_tight(const Schedule& schedule, std::int64_t enough) {
  return pack(schedule, Layout(schedule), enough);
}

Placement place(const Schedule& schedule,
                std::int32_t tasks,
                std::int64_t capacity,
                std::int64_t ahead) {
  constexpr int tries = 6;
  std::int64_t fill = capacity;
  for (int i = 0; ahead > 0 && i < tries; ++i) {
    Extension extension(schedule, tasks, fill);
    for (std::int64_t window = std::min(ahead, ahead / 4 + 1);;
         window = std::min(ahead, window * 2)) {
      extension.drains(window);
      extension.fetches(window);
      if (window == ahead) {
        break;
      }
    }
    Placement placement = pack(schedule, extension.layout(), capacity);
    if (placement.arena_bytes <= capacity) {
      return placement;
    }
    // Holes between visits took the rest: leave them room.
    fill -= std::max((placement.arena_bytes - capacity), capacity / 64);
  }
  return place_tight(schedule, capacity);
}

std::int64_t visit_traffic_bytes(const Schedule& schedule, const UseTable& uses) {
  std::vector<std::int64_t> traffic(uses.unit_visit.empty() ? 1 : at(uses.unit_visit.back()) + 1);
  for (const Visit& visit : schedule.visits) {
    for (const Fetch& fetch : visit.fetches) {
      traffic[at(uses.unit_visit[at(fetch.need)])] += fetch.bytes;
    }
    for (const Drain& drain : visit.drains) {
      traffic[at(uses.unit_visit[at(drain.after)])] += drain.bytes;
    }
  }
  traffic.erase(std::remove(traffic.begin(), traffic.end(), 0), traffic.end());
  if (traffic.empty()) {
    return 0;
  }
  const auto middle = traffic.begin() + static_cast<std::ptrdiff_t>(traffic.size() / 2);
  std::nth_element(traffic.begin(), middle, traffic.end());
  return *middle;
}

}  // namespace parbuckle
