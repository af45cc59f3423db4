#include "offload/plan/simulate.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>

namespace parbuckle {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr std::size_t lane_kinds = 5;

const ProgramTime* find_time(const Hardware& hardware, const std::string& program, ShapeKey key) {
  const ProgramTime* same_name = nullptr;
  for (const ProgramTime& time : hardware.program_times) {
    if (time.program == program) {
      if (time.key == key) {
        return &time;
      }
      same_name = &time;
    }
  }
  return same_name;
}

// Work that does not depend on the micro-batch has one program, timed under whatever key it was compiled with.
const ProgramTime* measured(const Family& family, ShapeKey key, const Hardware& hardware) {
  const ProgramTime* const found = find_time(hardware, family.name, key);
  const bool usable = found != nullptr && (found->key == key || family.programs.size() <= 1);
  return usable ? found : nullptr;
}

// The entry of a per-program list for this shape: the only one where work does not depend on the micro-batch.
double at_shape(const std::vector<double>& per_program, std::size_t shape) {
  return per_program.empty() ? 0 : per_program[std::min(shape, per_program.size() - 1)];
}

// One queue of transfers and where it stands. Up to lane_depth() of them have started; the first of those moves its bytes while
// the latency of the others passes.
struct LaneState {
  std::vector<std::size_t> queue;  // transfers, in order
  std::size_t started = 0;
  std::size_t ended = 0;
  double latency_left = 0;  // of the first
  double bytes_left = 0;    // of the first
  const Lane* lane = nullptr;

  [[nodiscard]] bool busy() const { return ended < started; }
  [[nodiscard]] bool moves() const { return busy() && latency_left <= 0; }
  [[nodiscard]] bool full() const {
    return started - ended == static_cast<std::size_t>(lane_depth(lane->kind));
  }
};

class Simulator {
 public:
  Simulator(const Plan& plan, const StepLoad& load)
      : plan_(plan), load_(load), done_(plan.transfers.size(), false) {
    timeline_.tasks.resize(plan.tasks.size());
    timeline_.transfers.resize(plan.transfers.size());
  }

  Status attach(const Hardware& hardware) {
    for (std::size_t i = 0; i < plan_.transfers.size(); ++i) {
      lanes_[static_cast<std::size_t>(plan_.transfers[i].lane)].queue.push_back(i);
    }
    for (std::size_t kind = 0; kind < lane_kinds; ++kind) {
      for (const Lane& lane : hardware.lanes) {
        if (static_cast<std::size_t>(lane.kind) == kind && lanes_[kind].lane == nullptr) {
          lanes_[kind].lane = &lane;
        }
      }
      const LaneState& state = lanes_[kind];
      if (!state.queue.empty() && (state.lane == nullptr || state.lane->bytes_per_s <= 0)) {
        return invalid("hardware '" + hardware.name + "': no lane '" +
                       std::string(to_string(static_cast<LaneKind>(kind))) +
                       "' with bytes_per_s above 0, and the plan moves bytes through it");
      }
    }
    return Status();
  }

  Result<Timeline> run() {
    while (start_what_can()) {
      const double step = next_event();
      if (step == never) {
        break;
      }
      advance(step);
    }
    const bool finished = task_ == plan_.tasks.size() &&
                          std::all_of(lanes_.begin(), lanes_.end(), [](const LaneState& lane) {
                            return lane.ended == lane.queue.size();
                          });
    if (!finished) {
      return internal_error("plan: task " + std::to_string(task_) +
                            " never starts: its waits form a circle");
    }
    timeline_.step_s = now_;
    return std::move(timeline_);
  }

 private:
  [[nodiscard]] bool all_done(const std::vector<TransferId>& waits) const {
    return std::all_of(
        waits.begin(), waits.end(), [&](TransferId id) { return done_[id.index()]; });
  }

  // Starts every task and transfer whose time has come; true while anything is running.
  bool start_what_can() {
    if (!computing_ && task_ < plan_.tasks.size() && all_done(plan_.tasks[task_].waits)) {
      computing_ = true;
      task_end_ = now_ + load_.task_s[task_];
      timeline_.tasks[task_].begin_s = now_;
    }
    bool running = computing_;
    for (LaneState& lane : lanes_) {
      while (lane.started < lane.queue.size() && !lane.full() && may_start(lane)) {
        timeline_.transfers[lane.queue[lane.started]].begin_s = now_;
        if (lane.started++ == lane.ended) {
          come_first(lane, now_);
        }
      }
      running = running || lane.busy();
    }
    return running;
  }

  [[nodiscard]] bool may_start(const LaneState& lane) const {
    const Transfer& transfer = plan_.transfers[lane.queue[lane.started]];
    return transfer.after_task < static_cast<std::int32_t>(task_) &&
           all_done(transfer.after_transfers);
  }

  // The first transfer of the lane has its turn from `now` on.
  void come_first(LaneState& lane, double now) const {
    const std::size_t id = lane.queue[lane.ended];
    const double passed = now - timeline_.transfers[id].begin_s;
    lane.latency_left = std::max(0.0, lane.lane->latency_s - passed);
    lane.bytes_left = static_cast<double>(load_.transfer_bytes[id]);
  }

  [[nodiscard]] double rate(const LaneState& lane) const {
    const Lane& own = *lane.lane;
    if (own.engine < 0 || own.duplex_bytes_per_s <= 0) {
      return own.bytes_per_s;
    }
    const bool shared = std::any_of(lanes_.begin(), lanes_.end(), [&](const LaneState& other) {
      return &other != &lane && other.moves() && other.lane->engine == own.engine;
    });
    return shared ? own.duplex_bytes_per_s : own.bytes_per_s;
  }

  [[nodiscard]] double next_event() const {
    double step = computing_ ? task_end_ - now_ : never;
    for (const LaneState& lane : lanes_) {
      if (lane.busy()) {
        step = std::min(step, lane.moves() ? lane.bytes_left / rate(lane) : lane.latency_left);
      }
    }
    return std::max(step, 0.0);
  }

  void advance(double step) {
    std::array<double, lane_kinds> rates{};
    for (std::size_t i = 0; i < lane_kinds; ++i) {
      rates[i] = lanes_[i].moves() ? rate(lanes_[i]) : 0;
    }
    const double end = now_ + step;
    for (std::size_t i = 0; i < lane_kinds; ++i) {
      LaneState& lane = lanes_[i];
      if (!lane.busy()) {
        continue;
      }
      if (rates[i] == 0) {
        lane.latency_left = lane.latency_left <= step ? 0 : lane.latency_left - step;
        continue;
      }
      // The lane whose end defined the step ends exactly now; rounding must not leave a sliver behind.
      lane.bytes_left = lane.bytes_left / rates[i] <= step ? 0 : lane.bytes_left - rates[i] * step;
      if (lane.bytes_left <= 0) {
        finish(lane, end);
      }
    }
    now_ = end;
    if (computing_ && task_end_ <= now_) {
      computing_ = false;
      timeline_.tasks[task_].end_s = now_;
      ++task_;
    }
  }

  void finish(LaneState& lane, double end) {
    const std::size_t id = lane.queue[lane.ended];
    timeline_.transfers[id].end_s = end;
    done_[id] = true;
    ++lane.ended;
    if (lane.busy()) {
      come_first(lane, end);
    }
  }

  const Plan& plan_;
  const StepLoad& load_;
  std::vector<bool> done_;
  std::array<LaneState, lane_kinds> lanes_;
  Timeline timeline_;
  double now_ = 0;
  std::size_t task_ = 0;  // the task that runs, or runs next
  bool computing_ = false;
  double task_end_ = 0;
};

}  // namespace

Result<std::vector<double>> family_seconds(const Workload& workload, const Hardware& hardware) {
  return family_seconds(
      workload, hardware, workload.shapes.empty() ? 0 : workload.shapes.size() - 1);
}

Result<std::vector<double>> family_seconds(const Workload& workload,
                                           const Hardware& hardware,
                                           std::size_t shape) {
  if (hardware.devices.empty()) {
    return invalid("hardware '" + hardware.name + "': devices is empty, expected one");
  }
  const ComputeDevice& device = hardware.devices.front();
  const ShapeKey key = workload.shapes.empty() ? ShapeKey{} : workload.shapes[shape];
  std::vector<double> seconds;
  for (const Family& family : workload.families) {
    if (const ProgramTime* const time = measured(family, key, hardware)) {
      seconds.push_back(time->seconds);
      continue;
    }
    const double flops = at_shape(family.flops, shape);
    const double bytes = at_shape(family.traffic_bytes, shape);
    if ((flops > 0 && device.flops_per_s <= 0) || (bytes > 0 && device.memory_bytes_per_s <= 0)) {
      return invalid("hardware '" + hardware.name + "', device '" + device.name +
                     "': flops_per_s and memory_bytes_per_s must be above 0: program '" +
                     family.name + "' was never timed");
    }
    seconds.push_back((flops > 0 ? flops / device.flops_per_s : 0) +
                      (bytes > 0 ? bytes / device.memory_bytes_per_s : 0));
  }
  return seconds;
}

Result<Timeline> simulate(const Plan& plan, const StepLoad& load, const Hardware& hardware) {
  Simulator simulator(plan, load);
  PARBUCKLE_TRY(simulator.attach(hardware));
  return simulator.run();
}

Result<Timeline> simulate(const Plan& plan,
                          const std::vector<double>& family_seconds,
                          const Hardware& hardware) {
  StepLoad load;
  load.task_s.reserve(plan.tasks.size());
  for (const Task& task : plan.tasks) {
    load.task_s.push_back(family_seconds[task.family.index()]);
  }
  load.transfer_bytes.reserve(plan.transfers.size());
  for (const Transfer& transfer : plan.transfers) {
    load.transfer_bytes.push_back(transfer.bytes);
  }
  return simulate(plan, load, hardware);
}

}  // namespace parbuckle
