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

// Lowest offset from `base` with `bytes` that nothing in `placed`, sorted by offset, holds during `ranges`.
std::int64_t lowest_free(const std::vector<Placed>& placed,
                         const Ranges& ranges,
                         std::int64_t bytes,
                         std::int64_t base) {
  std::int64_t offset = base;
  for (const Placed& other : placed) {
    if (other.offset - offset >= bytes) {
      break;
    }
    if (other.end > offset && overlap(ranges, other.ranges)) {
      offset = other.end;
    }
  }
  return offset;
}

// First fit above the resident visits in the given order: each at the lowest offset that is free during the ranges it is wanted
// for, or during less where that would end above `capacity`.
class FirstFit {
 public:
  FirstFit(const Schedule& schedule, const Layout& wanted, std::int64_t capacity)
      : schedule_(schedule), wanted_(wanted), least_(schedule), capacity_(capacity) {}

  Placement run(const std::vector<std::int32_t>& order) {
    place_residents();
    placed_.reserve(order.size());
    for (const std::int32_t v : order) {
      Ranges ranges = wanted_.ranges[at(v)];
      while (!try_ranges(v, ranges)) {
        shrink(v, ranges);
      }
    }
    return std::move(result_);
  }

 private:
  void place_residents() {
    result_.offset.assign(schedule_.visits.size(), 0);
    for (std::size_t v = 0; v < schedule_.visits.size(); ++v) {
      if (schedule_.visits[v].resident) {
        result_.offset[v] = result_.resident_bytes;
        result_.resident_bytes += schedule_.visits[v].bytes;
      }
    }
    result_.arena_bytes = result_.resident_bytes;
  }

  // Puts the visit where it ends within the capacity; anywhere if these ranges are the least it needs.
  bool try_ranges(std::int32_t v, const Ranges& ranges) {
    const std::int64_t bytes = schedule_.visits[at(v)].bytes;
    const std::int64_t offset = lowest_free(placed_, ranges, bytes, result_.resident_bytes);
    if (offset + bytes > capacity_ && !is_least(v, ranges)) {
      return false;
    }
    put(v, offset, ranges);
    return true;
  }

  [[nodiscard]] bool is_least(std::int32_t v, const Ranges& ranges) const {
    const Ranges& least = least_.ranges[at(v)];
    return ranges[0].first == least[0].first && ranges[0].last == least[0].last;
  }

  // Gives back half of the time before and after the tasks of a visit. Visits with two ranges were never extended.
  void shrink(std::int32_t v, Ranges& ranges) const {
    const TaskRange least = least_.ranges[at(v)][0];
    ranges[0].first = least.first - (least.first - ranges[0].first) / 2;
    ranges[0].last = least.last + (ranges[0].last - least.last) / 2;
    ranges[1] = ranges[0];
  }

  void put(std::int32_t v, std::int64_t offset, const Ranges& ranges) {
    const Placed now{offset, offset + schedule_.visits[at(v)].bytes, ranges};
    result_.offset[at(v)] = offset;
    result_.arena_bytes = std::max(result_.arena_bytes, now.end);
    const auto by_offset = [](const Placed& a, const Placed& b) { return a.offset < b.offset; };
    placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), now, by_offset), now);
  }

  const Schedule& schedule_;
  const Layout& wanted_;
  Layout least_;
  std::int64_t capacity_;
  Placement result_;
  std::vector<Placed> placed_;  // by offset
};

std::int64_t tasks_held(const Ranges& ranges) {
  const std::int64_t first = ranges[0].last - ranges[0].first + 1;
  const bool twice = ranges[0].first == ranges[1].first;
  return first + (twice ? 0 : ranges[1].last - ranges[1].first + 1);
}

// Two orders that fragment differently: large visits first, and long ones first. The lower arena wins; the second order is
// left out where the first needs no more than `capacity`.
Placement pack(const Schedule& schedule, const Layout& layout, std::int64_t capacity) {
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
  const Placement by_size = FirstFit(schedule, layout, capacity).run(order);
  if (by_size.arena_bytes <= capacity) {
    return by_size;
  }
  const auto area = [&](std::int32_t v) { return tasks_held(layout.ranges[at(v)]); };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return area(a) > area(b);
  });
  const Placement by_time = FirstFit(schedule, layout, capacity).run(order);
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
  // Visits of different sizes leave holes; where they are too many, less is asked for.
  for (const double share : {1.0, 0.9, 0.75}) {
    if (ahead == 0) {
      break;
    }
    const auto fill = static_cast<std::int64_t>(share * static_cast<double>(capacity));
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
