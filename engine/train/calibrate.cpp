#include "engine/train/calibrate.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "parbuckle/units.h"

#include "offload/run/program_runner.h"
#include "offload/tier/arena.h"

namespace parbuckle {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t region_alignment = page_bytes;
constexpr double long_program_s = 0.02;  // from here on two runs are enough

std::int64_t memory_of(const Program& program) {
  std::int64_t bytes = round_up(program.scratch_bytes, region_alignment);
  for (const std::int64_t region : program.region_bytes) {
    bytes += round_up(region, region_alignment);
  }
  return bytes;
}

/// Positions in Workload::shapes that are timed.
std::vector<std::size_t> timed_shapes(std::size_t count) {
  if (count <= 4) {
    std::vector<std::size_t> all(count);
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }
  return {0, count / 2, count - 1};
}

/// One program at a time, on the stream that will run steps.
class Timer {
 public:
  static Result<std::unique_ptr<Timer>> create(std::span<const Program> programs,
                                               const std::vector<bool>& used,
                                               OpTable ops,
                                               Device& device) {
    std::unique_ptr<Timer> timer(new Timer(programs));
    std::int64_t most = page_bytes;
    for (std::size_t i = 0; i < programs.size(); ++i) {
      most = used[i] ? std::max(most, memory_of(programs[i])) : most;
    }
    PARBUCKLE_ASSIGN(timer->stream_, device.create_stream());
    PARBUCKLE_ASSIGN(Arena arena, Arena::create({.bytes = most, .lock = false}));
    timer->arena_.emplace(std::move(arena));
    PARBUCKLE_ASSIGN(ProgramRunner runner,
                     ProgramRunner::create(programs, used, ops, *timer->stream_));
    timer->runner_.emplace(std::move(runner));
    return timer;
  }

  Result<double> seconds(ProgramId id) {
    const Program& program = programs_[id.index()];
    std::memset(arena_->data(), 0, static_cast<std::size_t>(memory_of(program)));
    regions_.clear();
    std::byte* at = arena_->data();
    for (const std::int64_t region : program.region_bytes) {
      regions_.push_back(at);
      at += round_up(region, region_alignment);
    }
    Job job{.timer = this, .program = id, .scratch = at};
    PARBUCKLE_TRY(stream_->enqueue([](void* context) { static_cast<Job*>(context)->run(); }, &job));
    PARBUCKLE_TRY(stream_->synchronise());
    PARBUCKLE_TRY(job.status);
    return job.best;
  }

 private:
  struct Job {
    Timer* timer;
    ProgramId program;
    std::byte* scratch;
    double best = std::numeric_limits<double>::infinity();
    Status status;

    void run() {
      (void)once();  // warm-up: pages, caches, primitives
      int runs = 3;
      for (int i = 0; i < runs && status.ok(); ++i) {
        best = std::min(best, once());
        runs = best > long_program_s ? 2 : runs;
      }
    }
    double once() {
      const auto begin = Clock::now();
      if (status.ok()) {
        status = timer->runner_->run(program, timer->regions_, scratch);
      }
      return std::chrono::duration<double>(Clock::now() - begin).count();
    }
  };

  explicit Timer(std::span<const Program> programs) : programs_(programs) {}

  std::span<const Program> programs_;
  std::optional<Arena> arena_;
  std::optional<ProgramRunner> runner_;
  std::vector<std::byte*> regions_;
  std::unique_ptr<Stream> stream_;  // last: its work uses the rest
};

/// Times of all shapes from those of some, linear in rows between neighbours.
std::vector<double> interpolated(const Workload& workload,
                                 const std::vector<std::size_t>& timed,
                                 const std::vector<double>& seconds) {
  std::vector<double> all(workload.shapes.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::size_t right = 0;
    while (timed[right] < i) {
      ++right;
    }
    if (timed[right] == i) {
      all[i] = seconds[right];
      continue;
    }
    const auto x0 = static_cast<double>(workload.shapes[timed[right - 1]].rows);
    const auto x1 = static_cast<double>(workload.shapes[timed[right]].rows);
    const double share = (static_cast<double>(workload.shapes[i].rows) - x0) / (x1 - x0);
    all[i] = seconds[right - 1] + share * (seconds[right] - seconds[right - 1]);
  }
  return all;
}

bool is_known(std::span<const ProgramTime> known, const Family& family) {
  return std::any_of(known.begin(), known.end(), [&](const ProgramTime& time) {
    return time.program == family.name;
  });
}

std::vector<const Family*> timed_families(const CalibrationScope& scope,
                                          const Workload& workload,
                                          std::span<const Program> programs) {
  std::vector<bool> wanted(workload.families.size(), scope.what == Timed::all);
  for (const Update& update : workload.updates) {
    wanted[update.task.family.index()] = true;
  }
  std::vector<const Family*> families;
  for (std::size_t f = 0; f < workload.families.size(); ++f) {
    const Family& family = workload.families[f];
    if (wanted[f] && !is_known(scope.known, family) &&
        memory_of(programs[family.programs.back().index()]) <= scope.room) {
      families.push_back(&family);
    }
  }
  return families;
}

}  // namespace

Result<std::vector<ProgramTime>> calibrate(const CalibrationScope& scope,
                                           const Workload& workload,
                                           std::span<const Program> programs,
                                           OpTable ops,
                                           Device& device) {
  const std::vector<std::size_t> shapes = timed_shapes(workload.shapes.size());
  const std::vector<const Family*> families = timed_families(scope, workload, programs);
  std::vector<bool> used(programs.size(), false);
  for (const Family* const family : families) {
    if (family->programs.size() == 1) {
      used[family->programs[0].index()] = true;
      continue;
    }
    for (const std::size_t shape : shapes) {
      used[family->programs[shape].index()] = true;
    }
  }
  std::vector<ProgramTime> times;
  if (families.empty()) {
    return times;
  }
  PARBUCKLE_ASSIGN(const auto timer, Timer::create(programs, used, ops, device));
  for (const Family* const family : families) {
    if (family->programs.size() == 1) {
      PARBUCKLE_ASSIGN(const double seconds, timer->seconds(family->programs[0]));
      times.push_back({family->name, programs[family->programs[0].index()].key, seconds});
      continue;
    }
    std::vector<double> measured;
    for (const std::size_t shape : shapes) {
      PARBUCKLE_ASSIGN(const double seconds, timer->seconds(family->programs[shape]));
      measured.push_back(seconds);
    }
    const std::vector<double> all = interpolated(workload, shapes, measured);
    for (std::size_t i = 0; i < all.size(); ++i) {
      times.push_back({family->name, workload.shapes[i], all[i]});
    }
  }
  return times;
}

Result<DeviceRates> measure_rates(std::int64_t room, OpTable ops, Device& device) {
  constexpr std::int64_t side = 512;
  constexpr std::int64_t most = rates_room / 2 / 4;  // elements
  constexpr std::int64_t least = 256 * kib;
  const std::int64_t copied = std::clamp(room / 2 / 4 / 1024 * 1024, least, most);
  const OpCall product{.kind = OpKind::linear_forward,
                       .operands = {{0, 0, DType::f32, {side, side, 1}},
                                    {1, 0, DType::f32, {side, side, 1}},
                                    {2, 0, DType::f32, {side, side, 1}}}};
  const OpCall copy{
      .kind = OpKind::copy,
      .operands = {{0, 0, DType::f32, {copied, 1, 1}}, {1, 0, DType::f32, {copied, 1, 1}}}};
  const OpShape shape{
      .kind = product.kind,
      .operands = {
          product.operands[0].shape, product.operands[1].shape, product.operands[2].shape}};
  PARBUCKLE_ASSIGN(const std::int64_t workspace, ops.prepare(ops.state, shape));
  const std::vector<Program> programs{
      {.name = "product",
       .region_bytes = std::vector<std::int64_t>(3, side * side * 4),
       .ops = {product},
       .scratch_bytes = workspace},
      {.name = "copy", .region_bytes = std::vector<std::int64_t>(2, copied * 4), .ops = {copy}}};
  PARBUCKLE_ASSIGN(const auto timer, Timer::create(programs, {true, true}, ops, device));
  PARBUCKLE_ASSIGN(const double product_s, timer->seconds(ProgramId(std::int64_t{0})));
  PARBUCKLE_ASSIGN(const double copy_s, timer->seconds(ProgramId(std::int64_t{1})));
  return DeviceRates{.flops_per_s = 2.0 * side * side * side / product_s,
                     .memory_bytes_per_s = 8.0 * static_cast<double>(copied) / copy_s};
}

}  // namespace parbuckle
