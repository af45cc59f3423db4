#include "offload/plan/simulate.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>

namespace parbuckle {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

const ProgramTime* find_time(const Hardware& hardware,
                             std::int32_t device,
                             const std::string& program,
                             ShapeKey key) {
  const ProgramTime* same_name = nullptr;
  for (const ProgramTime& time : hardware.program_times) {
    if (time.program == program && time.device == device) {
      if (time.key == key) {
        return &time;
      }
      same_name = &time;
    }
  }
  return same_name;
}

// Work that does not depend on the micro-batch has one program, timed under whatever key it was compiled with.
const ProgramTime* measured(const Family& family,
                            ShapeKey key,
                            const Hardware& hardware,
                            std::int32_t device) {
  const ProgramTime* const found = find_time(hardware, device, family.name, key);
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

// One queue of tasks.
struct TaskQueue {
  std::vector<std::size_t> queue;  // tasks, in order
  std::size_t next = 0;            // runs, or runs next
  bool busy = false;
  double seconds_left = 0;
  double speed = 1;  // less where host memory is too slow for all that use it
};

// Host memory shared by so many takers: each gets what it asks for, or an equal share of what is left. `asked` becomes what
// each gets.
void share_memory(double bytes_per_s, std::array<double, lane_kind_count>& asked) {
  double left = bytes_per_s;
  std::array<bool, lane_kind_count> served{};
  for (std::size_t round = 0; round < asked.size(); ++round) {
    std::size_t least = asked.size();
    std::size_t waiting = 0;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (!served[i] && asked[i] > 0) {
        ++waiting;
        least = least == asked.size() || asked[i] < asked[least] ? i : least;
      }
    }
    if (waiting == 0) {
      return;
    }
    asked[least] = std::min(asked[least], left / static_cast<double>(waiting));
    left -= asked[least];
    served[least] = true;
  }
}

class Simulator {
 public:
  Simulator(const Plan& plan, const StepLoad& load)
      : plan_(plan),
        load_(load),
        done_(plan.transfers.size(), false),
        task_done_(plan.tasks.size(), false) {
    timeline_.tasks.resize(plan.tasks.size());
    timeline_.transfers.resize(plan.transfers.size());
    for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
      compute_[queue_of(plan.tasks[t].lane)].queue.push_back(t);
    }
  }

  Status attach(const Hardware& hardware) {
    for (std::size_t i = 0; i < plan_.transfers.size(); ++i) {
      lanes_[static_cast<std::size_t>(plan_.transfers[i].lane)].queue.push_back(i);
    }
    for (std::size_t kind = 0; kind < lane_kind_count; ++kind) {
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
    if (const ComputeDevice* const host = host_device(hardware)) {
      memory_bytes_per_s_ = host->memory_bytes_per_s;
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
    const auto stuck = std::find(task_done_.begin(), task_done_.end(), false);
    const bool finished = stuck == task_done_.end() &&
                          std::all_of(lanes_.begin(), lanes_.end(), [](const LaneState& lane) {
                            return lane.ended == lane.queue.size();
                          });
    if (!finished) {
      return internal_error("plan: task " + std::to_string(stuck - task_done_.begin()) +
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

  static std::size_t queue_of(LaneKind lane) { return lane == LaneKind::host_compute ? 1 : 0; }

  [[nodiscard]] bool has_ended(std::int32_t task) const {
    return task < 0 || task_done_[static_cast<std::size_t>(task)];
  }

  // Starts every task and transfer whose time has come; true while anything is running.
  bool start_what_can() {
    bool running = false;
    for (TaskQueue& tasks : compute_) {
      if (!tasks.busy && tasks.next < tasks.queue.size()) {
        const std::size_t id = tasks.queue[tasks.next];
        if (has_ended(plan_.tasks[id].after_task) && all_done(plan_.tasks[id].waits)) {
          tasks.busy = true;
          tasks.seconds_left = load_.task_s[id];
          timeline_.tasks[id].begin_s = now_;
        }
      }
      running = running || tasks.busy;
    }
    for (LaneState& lane : lanes_) {
      while (lane.started < lane.queue.size() && !lane.full() && may_start(lane)) {
        timeline_.transfers[lane.queue[lane.started]].begin_s = now_;
        if (lane.started++ == lane.ended) {
          come_first(lane, now_);
        }
      }
      running = running || lane.busy();
    }
    set_rates();
    return running;
  }

  [[nodiscard]] bool may_start(const LaneState& lane) const {
    const Transfer& transfer = plan_.transfers[lane.queue[lane.started]];
    return has_ended(transfer.after_task) && has_ended(transfer.after_host_task) &&
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

  void set_rates() {
    for (std::size_t i = 0; i < lane_kind_count; ++i) {
      rates_[i] = lanes_[i].moves() ? rate(lanes_[i]) : 0;
    }
    TaskQueue& host = compute_[1];
    host.speed = 1;
    if (memory_bytes_per_s_ <= 0) {
      return;
    }
    constexpr auto task = static_cast<std::size_t>(LaneKind::host_compute);
    rates_[task] = host.busy ? memory_bytes_per_s_ : 0;
    share_memory(memory_bytes_per_s_, rates_);
    host.speed = host.busy ? rates_[task] / memory_bytes_per_s_ : 1;
  }

  [[nodiscard]] double next_event() const {
    double step = never;
    for (const TaskQueue& tasks : compute_) {
      step = tasks.busy ? std::min(step, tasks.seconds_left / tasks.speed) : step;
    }
    for (std::size_t i = 0; i < lane_kind_count; ++i) {
      const LaneState& lane = lanes_[i];
      if (lane.busy()) {
        step = std::min(step, lane.moves() ? lane.bytes_left / rates_[i] : lane.latency_left);
      }
    }
    return std::max(step, 0.0);
  }

  // Who defined the step by ending ends exactly now; rounding must not leave a sliver behind.
  void advance(double step) {
    const double end = now_ + step;
    for (std::size_t i = 0; i < lane_kind_count; ++i) {
      LaneState& lane = lanes_[i];
      if (!lane.busy()) {
        continue;
      }
      if (rates_[i] == 0) {
        lane.latency_left = lane.latency_left <= step ? 0 : lane.latency_left - step;
        continue;
      }
      lane.bytes_left =
          lane.bytes_left / rates_[i] <= step ? 0 : lane.bytes_left - rates_[i] * step;
      if (lane.bytes_left <= 0) {
        finish(lane, end);
      }
    }
    now_ = end;
    for (TaskQueue& tasks : compute_) {
      advance(tasks, step);
    }
  }

  void advance(TaskQueue& tasks, double step) {
    if (!tasks.busy) {
      return;
    }
    const bool ends = tasks.seconds_left / tasks.speed <= step;
    tasks.seconds_left -= step * tasks.speed;
    if (ends) {
      const std::size_t id = tasks.queue[tasks.next++];
      tasks.busy = false;
      task_done_[id] = true;
      timeline_.tasks[id].end_s = now_;
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
  std::vector<bool> done_;       // transfers
  std::vector<bool> task_done_;  // tasks
  std::array<TaskQueue, 2> compute_;
  std::array<double, lane_kind_count> rates_{};  // bytes a second now, by LaneKind
  double memory_bytes_per_s_ = 0;                // of host memory beside a device; 0: not known
  std::array<LaneState, lane_kind_count> lanes_;
  Timeline timeline_;
  double now_ = 0;
};

Result<std::vector<double>> seconds_on(const Workload& workload,
                                       const Hardware& hardware,
                                       std::size_t shape,
                                       std::int32_t on) {
  const ComputeDevice& device = hardware.devices[static_cast<std::size_t>(on)];
  const ShapeKey key = workload.shapes.empty() ? ShapeKey{} : workload.shapes[shape];
  std::vector<double> seconds;
  for (const Family& family : workload.families) {
    if (const ProgramTime* const time = measured(family, key, hardware, on)) {
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

}  // namespace

Result<FamilySeconds> family_seconds(const Workload& workload, const Hardware& hardware) {
  return family_seconds(
      workload, hardware, workload.shapes.empty() ? 0 : workload.shapes.size() - 1);
}

Result<FamilySeconds> family_seconds(const Workload& workload,
                                     const Hardware& hardware,
                                     std::size_t shape) {
  if (hardware.devices.empty()) {
    return invalid("hardware '" + hardware.name + "': devices is empty, expected one");
  }
  PARBUCKLE_ASSIGN(std::vector<double> device, seconds_on(workload, hardware, shape, 0));
  std::vector<double> host;
  if (host_device(hardware) != nullptr) {
    PARBUCKLE_ASSIGN(host, seconds_on(workload, hardware, shape, 1));
  }
  return FamilySeconds(std::move(device), std::move(host));
}

Result<Timeline> simulate(const Plan& plan, const StepLoad& load, const Hardware& hardware) {
  Simulator simulator(plan, load);
  PARBUCKLE_TRY(simulator.attach(hardware));
  return simulator.run();
}

Result<Timeline> simulate(const Plan& plan,
                          const FamilySeconds& family_seconds,
                          const Hardware& hardware) {
  StepLoad load;
  load.task_s.reserve(plan.tasks.size());
  for (const Task& task : plan.tasks) {
    load.task_s.push_back(family_seconds.of(task.family, task.lane));
  }
  load.transfer_bytes.reserve(plan.transfers.size());
  for (const Transfer& transfer : plan.transfers) {
    load.transfer_bytes.push_back(transfer.bytes);
  }
  return simulate(plan, load, hardware);
}

}  // namespace parbuckle
