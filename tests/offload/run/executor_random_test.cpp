// Random workloads, machines, budgets and choices, planned and run: every mode gives the bytes of the tasks run one by one without
// any placement, moves the planned bytes, reaches the planned peak, and ends.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "offload/plan/validate.h"
#include "tests/offload/run/generated_step.h"

namespace parbuckle {
namespace {

/// Ends the process, naming the draw, where a step does not end.
class Watchdog {
 public:
  explicit Watchdog(std::string what)
      : what_(std::move(what)), thread_([this] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, std::chrono::minutes(2), [this] { return done_; })) {
            std::fprintf(stderr, "deadlock: %s\n", what_.c_str());
            std::abort();
          }
        }) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  Watchdog(Watchdog&&) = delete;
  Watchdog& operator=(Watchdog&&) = delete;
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

/// Rates from a slow disk to a fast drive, from a weak core to a strong one, so that plans are bound by either.
Hardware random_machine(std::mt19937& random, Hardware machine) {
  const auto factor = [&random](std::uint32_t most) {
    return static_cast<double>(1 + random() % most);
  };
  machine.devices[0].flops_per_s /= factor(50);
  machine.devices[0].memory_bytes_per_s /= factor(4);
  if (machine.devices.size() > 1) {
    machine.devices[1].memory_bytes_per_s /= factor(10);
  }
  for (Lane& lane : machine.lanes) {
    const double by = factor(20) / 5;
    lane.bytes_per_s *= by;
    lane.duplex_bytes_per_s *= by * (random() % 2 == 0 ? 1 : 0.6);
    lane.latency_s *= factor(10) / 5;
  }
  return machine;
}

template <class T>
std::optional<T> sometimes(std::mt19937& random, std::initializer_list<T> values) {
  if (random() % 2 == 0) {
    return std::nullopt;
  }
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

Forced random_forced(std::mt19937& random, const Workload& workload) {
  Forced forced;
  forced.group = sometimes<std::int32_t>(
      random, {1, 1 + (workload.micro_batches - 1) / 2, workload.micro_batches});
  forced.window = workload.clipping
                      ? sometimes(random, {Window::after, Window::lazy})
                      : sometimes(random, {Window::after, Window::fused, Window::lazy});
  forced.activations = sometimes(
      random, {ActivationPolicy::keep, ActivationPolicy::spill, ActivationPolicy::recompute});
  forced.gradient = sometimes(random, {WaitsIn::compute, WaitsIn::nvme});
  forced.prefetch = sometimes<std::int32_t>(random, {0, 1, 3});
  forced.pin = random() % 3 != 0;
  return forced;
}

TransformerSizes small_sizes(std::mt19937& random) {
  TransformerSizes sizes = random_sizes(random);
  sizes.layers = 1 + static_cast<std::int32_t>(random() % 2);
  sizes.width = 32 * (1 + static_cast<std::int64_t>(random() % 3));
  sizes.kv_width = sizes.width;
  sizes.intermediate = 32 * (1 + static_cast<std::int64_t>(random() % 4));
  sizes.vocabulary = 64 * (1 + static_cast<std::int64_t>(random() % 12));
  sizes.rows = 64 * (1 + static_cast<std::int64_t>(random() % 2));
  sizes.micro_batches = 1 + static_cast<std::int32_t>(random() % 3);
  return sizes;
}

/// nullopt: the draw's budget is one of those that no plan keeps.
std::optional<GeneratedStep> draw(std::mt19937& random) {
  GeneratedStep step;
  step.workload = make_workload(small_sizes(random));
  step.programs = make_mixing_programs(step.workload);
  const Hardware machine = random_machine(random, small_machine());
  const Forced forced = random_forced(random, step.workload);
  Budgets budgets;
  budgets.host_bytes = smallest_host_bytes(step.workload, machine, budgets, forced).value() - mib +
                       static_cast<std::int64_t>(random() % 32) * 64 * kib;
  Result<Plan> made = plan(step.workload, machine, budgets, forced);
  if (!made.ok()) {
    EXPECT_EQ(made.status().code(), Code::resource_exhausted) << made.status().message();
    return std::nullopt;
  }
  step.plan = std::move(made).value();
  return step;
}

/// The same beside a device whose memory is at or little above the least: three tiers at once.
std::optional<GeneratedStep> draw_beside_device(std::mt19937& random) {
  GeneratedStep step;
  step.workload = make_workload(small_sizes(random));
  step.programs = make_mixing_programs(step.workload);
  const Hardware machine =
      random_machine(random, random() % 3 == 0 ? device_machine() : hetero_machine());
  Forced forced = random_forced(random, step.workload);
  forced.gradient = sometimes(random, {WaitsIn::compute, WaitsIn::host, WaitsIn::nvme});
  forced.boundary = sometimes(random, {WaitsIn::compute, WaitsIn::host, WaitsIn::nvme});
  if (machine.devices.size() > 1) {
    forced.updates = sometimes(random, {LaneKind::host_compute});
  }
  Budgets budgets;
  budgets.device_bytes = smallest_device_bytes(step.workload, machine, forced).value() +
                         static_cast<std::int64_t>(random() % 16) * 64 * kib;
  budgets.host_bytes = smallest_host_bytes(step.workload, machine, budgets, forced).value() +
                       static_cast<std::int64_t>(random() % 16) * 64 * kib;
  Result<Plan> made = plan(step.workload, machine, budgets, forced);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    return std::nullopt;
  }
  step.plan = std::move(made).value();
  return step;
}

struct NumberedStep {
  std::vector<std::int32_t> shapes;
  StepMode mode = StepMode::full;
  bool drop = false;  // apply_updates says no
};

/// First steps as a trainer makes them: no pending updates, short rows, a dropped step, then two whole ones and the end of a run.
std::vector<NumberedStep> steps_of(std::mt19937& random, const GeneratedStep& step) {
  const std::vector<std::int32_t> largest = step.largest_shapes();
  std::vector<std::int32_t> mixed = largest;
  for (std::int32_t& shape : mixed) {
    shape = static_cast<std::int32_t>(random() % step.workload.shapes.size());
  }
  std::vector<NumberedStep> steps{{largest, StepMode::without_pending},
                                  {mixed, StepMode::full},
                                  {largest, StepMode::full, true},
                                  {mixed, StepMode::without_pending},
                                  {largest, StepMode::full},
                                  {largest, StepMode::full}};
  if (step.plan.choice.window == Window::lazy) {
    steps.push_back({largest, StepMode::pending_only});
  }
  return steps;
}

const std::vector<std::pair<std::string, ExecutorOptions>> modes{
    {"overlapped", {}}, {"serial", {.serial = true}}, {"poison", {.poison = true}}};

/// All modes beside each other, step by step, and the tasks without placement once.
void run_and_compare(const GeneratedStep& step,
                     const std::vector<NumberedStep>& steps,
                     std::uint32_t seed) {
  UnplacedRun unplaced(step.workload, step.plan, step.programs);
  std::vector<std::unique_ptr<GeneratedRun>> runs;
  for (const auto& [name, options] : modes) {
    runs.push_back(std::make_unique<GeneratedRun>(step, options));
    ASSERT_TRUE(runs.back()->created.ok()) << name << ": " << runs.back()->created.message();
    runs.back()->dawdle(seed);
    load(step, *runs.back()->executor, unplaced);
  }
  for (std::size_t n = 0; n < steps.size(); ++n) {
    StepInput input{.shapes = steps[n].shapes, .mode = steps[n].mode};
    input.apply_updates = [&] { return !steps[n].drop; };
    std::vector<StepTrace> traces(runs.size());
    for (std::size_t r = 0; r < runs.size(); ++r) {
      load_batch(step, n, *runs[r]->executor, unplaced);
      const Status status = runs[r]->executor->run_step(input, traces[r]);
      ASSERT_TRUE(status.ok()) << modes[r].first << ", step " << n << ": " << status.message();
    }
    unplaced.run_step(input);
    for (std::size_t r = 0; r < runs.size(); ++r) {
      SCOPED_TRACE(modes[r].first + ", step " + std::to_string(n));
      ASSERT_EQ(difference(step, *runs[r]->executor, unplaced), "");
      if (n == 5) {  // a whole step, everything that it reads written before
        EXPECT_EQ(moved_by_role(traces[r].bytes), moved_by_role(step.plan.bytes));
        EXPECT_EQ(traces[r].arena_peak_bytes, step.plan.host_arena_bytes);
        EXPECT_EQ(traces[r].device_arena_peak_bytes, step.plan.device_arena_bytes);
      }
    }
  }
}

TEST(RandomSteps, GiveTheBytesOfTheirTasksInEveryMode) {
  constexpr int draws = 200;
  int made = 0;
  int moving = 0;
  for (std::uint32_t seed = 0; made < draws; ++seed) {
    std::mt19937 random(seed);
    const std::optional<GeneratedStep> step = draw(random);
    if (!step) {
      continue;
    }
    ++made;
    moving += step->plan.transfers.empty() ? 0 : 1;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Watchdog watchdog("seed " + std::to_string(seed));
    run_and_compare(*step, steps_of(random, *step), seed);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(moving, draws / 2);
}

TEST(RandomSteps, OverThreeTiersGiveTheBytesOfTheirTasksInEveryMode) {
  constexpr std::uint32_t draws = 200;
  int through_both = 0;
  int on_host = 0;
  for (std::uint32_t seed = 0; seed < draws; ++seed) {
    std::mt19937 random(seed);
    const std::optional<GeneratedStep> step = draw_beside_device(random);
    ASSERT_TRUE(step.has_value()) << "seed " << seed;
    const auto uses = [&](LaneKind kind) {
      return std::any_of(step->plan.transfers.begin(),
                         step->plan.transfers.end(),
                         [kind](const Transfer& transfer) { return transfer.lane == kind; });
    };
    through_both += uses(LaneKind::nvme_read) && uses(LaneKind::h2d) ? 1 : 0;
    on_host += step->plan.choice.host_updates.empty() ? 0 : 1;
    ASSERT_TRUE(validate(step->workload, step->plan).empty()) << "seed " << seed;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Watchdog watchdog("seed " + std::to_string(seed));
    run_and_compare(*step, steps_of(random, *step), seed);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(through_both, 60);
  EXPECT_GT(on_host, 60) << "plans with updates on the host's lane";
}

}  // namespace
}  // namespace parbuckle
