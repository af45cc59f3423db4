#include "offload/plan/bound.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

namespace parbuckle {
namespace {

const Lane* find_lane(const Hardware& hardware, LaneKind kind) {
  const auto found = std::find_if(hardware.lanes.begin(),
                                  hardware.lanes.end(),
                                  [&](const Lane& lane) { return lane.kind == kind; });
  return found == hardware.lanes.end() ? nullptr : &*found;
}

double lane_seconds(const Lane* lane, double bytes) {
  return bytes <= 0 || lane == nullptr ? 0 : bytes / lane->bytes_per_s;
}

void name_limit(Bound& bound) {
  const std::array<std::pair<double, std::string_view>, 7> lanes{{{bound.compute_s, "compute"},
                                                                  {bound.host_s, "host_compute"},
                                                                  {bound.read_s, "nvme_read"},
                                                                  {bound.write_s, "nvme_write"},
                                                                  {bound.duplex_s, "nvme"},
                                                                  {bound.down_s, "h2d"},
                                                                  {bound.up_s, "d2h"}}};
  const auto largest = std::max_element(
      lanes.begin(), lanes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  bound.limited_by = largest->second;
  bound.step_s = std::max(bound.step_s, largest->first);
}

// How long a lane needs for its share of a run of transfers, at least. Where several are under way at once the latency of all
// but the first can pass behind the others.
class LaneSeconds {
 public:
  LaneSeconds(const Plan& plan, LaneKind kind, const Lane* lane)
      : sums_(plan.transfers.size() + 1, 0) {
    const bool hides = lane_depth(kind) > 1;
    first_ = hides && lane != nullptr ? lane->latency_s : 0;
    for (std::size_t i = 0; i < plan.transfers.size(); ++i) {
      const bool here = plan.transfers[i].lane == kind && lane != nullptr;
      const double bytes = static_cast<double>(plan.transfers[i].bytes);
      sums_[i + 1] =
          sums_[i] + (here ? (hides ? 0 : lane->latency_s) + lane_seconds(lane, bytes) : 0);
    }
  }

  /// Of transfers [begin, end).
  [[nodiscard]] double between(std::size_t begin, std::size_t end) const {
    const double moving = sums_[end] - sums_[begin];
    return moving > 0 ? first_ + moving : 0;
  }

 private:
  double first_ = 0;
  std::vector<double> sums_;
};

double min_alternative_seconds(const Unit& unit, bool train, const FamilySeconds& seconds) {
  double least = std::numeric_limits<double>::infinity();
  for (const Alternative& alternative : unit.alternatives) {
    double sum = 0;
    for (const TaskTemplate& t : alternative.forward) {
      sum += seconds[t.family.index()];
    }
    for (const TaskTemplate& t : alternative.backward) {
      sum += train ? seconds[t.family.index()] : 0;
    }
    least = std::min(least, sum);
  }
  return least;
}

double sum_seconds(const std::vector<TaskTemplate>& templates, const FamilySeconds& seconds) {
  double sum = 0;
  for (const TaskTemplate& t : templates) {
    sum += seconds[t.family.index()];
  }
  return sum;
}

// Updates count where no host beside the device could run them.
double least_compute(const Workload& workload, const FamilySeconds& seconds, bool updates) {
  const bool train = workload.phase == Phase::train;
  double sum = sum_seconds(workload.begin, seconds);
  for (const Unit& unit : workload.units) {
    sum += workload.micro_batches * min_alternative_seconds(unit, train, seconds);
    if (train) {
      sum += sum_seconds(unit.gradient_begin, seconds) + sum_seconds(unit.gradient_end, seconds);
    }
  }
  for (const Update& update : workload.updates) {
    sum += train && updates ? seconds[update.task.family.index()] : 0;
  }
  return sum;
}

}  // namespace

double duplex_seconds(const Hardware& hardware, double read_bytes, double written_bytes) {
  const Lane* const read = find_lane(hardware, LaneKind::nvme_read);
  const Lane* const write = find_lane(hardware, LaneKind::nvme_write);
  const double alone_read = lane_seconds(read, read_bytes);
  const double alone_write = lane_seconds(write, written_bytes);
  const bool shared = read != nullptr && write != nullptr && read->engine >= 0 &&
                      read->engine == write->engine && read->duplex_bytes_per_s > 0 &&
                      write->duplex_bytes_per_s > 0;
  if (!shared || alone_read == 0 || alone_write == 0) {
    return std::max(alone_read, alone_write);
  }
  // One after the other, or both together until the shorter direction is done.
  const double together =
      std::min(read_bytes / read->duplex_bytes_per_s, written_bytes / write->duplex_bytes_per_s);
  const double read_left = read_bytes - together * read->duplex_bytes_per_s;
  const double write_left = written_bytes - together * write->duplex_bytes_per_s;
  return std::min(alone_read + alone_write,
                  together + lane_seconds(read, read_left) + lane_seconds(write, write_left));
}

Bound bound_of_plan(const Plan& plan,
                    const FamilySeconds& family_seconds,
                    const Hardware& hardware) {
  std::vector<LaneSeconds> lanes;  // by LaneKind
  for (std::size_t kind = 0; kind < lane_kind_count; ++kind) {
    const auto lane = static_cast<LaneKind>(kind);
    lanes.emplace_back(plan, lane, find_lane(hardware, lane));
  }
  const auto up_to = [&](LaneKind kind, std::size_t transfers) {
    return lanes[static_cast<std::size_t>(kind)].between(0, transfers);
  };
  Bound bound;
  double read_bytes = 0;
  double written_bytes = 0;
  for (const RoleBytes& role : plan.bytes) {
    read_bytes += static_cast<double>(role.read);
    written_bytes += static_cast<double>(role.written);
  }
  const std::size_t all = plan.transfers.size();
  bound.read_s = up_to(LaneKind::nvme_read, all);
  bound.write_s = up_to(LaneKind::nvme_write, all);
  bound.down_s = up_to(LaneKind::h2d, all);
  bound.up_s = up_to(LaneKind::d2h, all);
  bound.duplex_s = duplex_seconds(hardware, read_bytes, written_bytes);
  // A task cannot end before: what its lane must fetch first, then this task; or the tasks before it, then this task.
  // The same on the host's lane.
  double device_end = 0;
  double host_end = 0;
  std::vector<double> ends;
  for (const Task& task : plan.tasks) {
    const bool on_host = task.lane == LaneKind::host_compute;
    const double seconds = family_seconds.of(task.family, task.lane);
    (on_host ? bound.host_s : bound.compute_s) += seconds;
    double& end = on_host ? host_end : device_end;
    if (task.after_task >= 0) {
      end = std::max(end, ends[static_cast<std::size_t>(task.after_task)]);
    }
    for (const TransferId id : task.waits) {
      end = std::max(end, up_to(plan.transfers[id.index()].lane, id.index() + 1));
    }
    end += seconds;
    ends.push_back(end);
  }
  bound.step_s = std::max(device_end, host_end);
  for (std::size_t i = 0; i < all; ++i) {
    const Transfer& transfer = plan.transfers[i];
    for (const std::int32_t task : {transfer.after_task, transfer.after_host_task}) {
      if (task >= 0) {
        bound.step_s = std::max(bound.step_s,
                                ends[static_cast<std::size_t>(task)] +
                                    lanes[static_cast<std::size_t>(transfer.lane)].between(i, all));
      }
    }
  }
  name_limit(bound);
  return bound;
}

Bound bound_of_workload(const Workload& workload,
                        const FamilySeconds& family_seconds,
                        const Hardware& hardware,
                        const Budgets& budgets) {
  std::vector<bool> used(workload.spans.size(), false);
  std::vector<bool> changed(workload.spans.size(), false);
  const auto note = [&](const std::vector<TaskTemplate>& templates) {
    for (const TaskTemplate& t : templates) {
      for (const Use& use : t.uses) {
        used[use.span.index()] = true;
        changed[use.span.index()] = changed[use.span.index()] || use.access != Access::read;
      }
    }
  };
  for (const Unit& unit : workload.units) {
    // What every alternative uses is used by the first one.
    note(unit.alternatives.front().forward);
    note(unit.alternatives.front().backward);
  }
  for (const Update& update : workload.updates) {
    note({update.task});
  }
  double state = 0;
  double changing = 0;
  for (const Block& block : workload.blocks) {
    if (block.persistent && used[block.span.index()]) {
      state += static_cast<double>(block.bytes);
      changing += changed[block.span.index()] ? static_cast<double>(block.bytes) : 0;
    }
  }
  const double held = budgets.host_bytes < 0
                          ? state
                          : static_cast<double>(budgets.host_bytes - budgets.host_reserve_bytes);
  Bound bound;
  bound.compute_s = least_compute(workload, family_seconds, host_device(hardware) == nullptr);
  const double read_bytes = std::max(0.0, state - held);
  const double written_bytes = std::max(0.0, changing - held);
  bound.read_s = lane_seconds(find_lane(hardware, LaneKind::nvme_read), read_bytes);
  bound.write_s = lane_seconds(find_lane(hardware, LaneKind::nvme_write), written_bytes);
  bound.duplex_s = duplex_seconds(hardware, read_bytes, written_bytes);
  name_limit(bound);
  return bound;
}

}  // namespace parbuckle
