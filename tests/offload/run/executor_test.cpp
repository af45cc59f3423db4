#include "offload/run/executor.h"

#include <algorithm>

#include "tests/offload/run/generated_step.h"
#include "tests/support/faulty_device.h"

namespace parbuckle {
namespace {

TransformerSizes two_layers(bool clipping) {
  TransformerSizes sizes;
  sizes.block_elements = 4096;
  sizes.rows = 128;
  sizes.clipping = clipping;
  return sizes;
}

/// Everything moves: nothing that can be streamed stays in memory.
GeneratedStep streamed_step(Window window) {
  return generate(
      two_layers(window != Window::fused),
      {.window = window, .activations = ActivationPolicy::spill, .prefetch = 1, .pin = false});
}

std::vector<std::byte> weights(const GeneratedStep& step, Executor& executor) {
  std::vector<std::byte> all;
  for (std::size_t b = 0; b < step.workload.blocks.size(); ++b) {
    const Block& block = step.workload.blocks[b];
    if (block.persistent) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(block.bytes));
      EXPECT_TRUE(executor.read_block(BlockId(b), 0, bytes).ok());
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  }
  return all;
}

/// How many updates stand before the first backward task, and how many after it.
std::pair<std::int64_t, std::int64_t> pending_and_other_updates(const Plan& plan) {
  const auto is_update = [](const Task& task) { return task.kind == TaskKind::update; };
  const auto backward = std::find_if(plan.tasks.begin(), plan.tasks.end(), [](const Task& task) {
    return task.kind == TaskKind::backward;
  });
  return {std::count_if(plan.tasks.begin(), backward, is_update),
          std::count_if(backward, plan.tasks.end(), is_update)};
}

class EveryWindow : public testing::TestWithParam<Window> {};

TEST_P(EveryWindow, ModesRunTheirPartOfTheStep) {
  const GeneratedStep step = streamed_step(GetParam());
  ASSERT_EQ(step.plan.choice.window, GetParam());
  ASSERT_FALSE(step.plan.transfers.empty());
  const auto [pending, others] = pending_and_other_updates(step.plan);
  EXPECT_EQ(pending > 0, GetParam() != Window::after);
  EXPECT_EQ(others > 0, GetParam() != Window::lazy);
  GeneratedRun run(step, {.poison = true});
  ASSERT_TRUE(run.created.ok()) << run.created.message();
  UnplacedRun unplaced(step.workload, step.plan, step.programs);
  load(step, *run.executor, unplaced);
  const std::vector<std::int32_t> shapes = step.largest_shapes();
  StepTrace trace;
  std::uint64_t number = 0;
  for (const StepMode mode : {StepMode::without_pending,
                              StepMode::full,
                              StepMode::pending_only,
                              StepMode::without_pending,
                              StepMode::pending_only}) {
    load_batch(step, number++, *run.executor, unplaced);
    const std::vector<std::byte> before = weights(step, *run.executor);
    const Status status = run.executor->run_step({.shapes = shapes, .mode = mode}, trace);
    ASSERT_TRUE(status.ok()) << status.message();
    unplaced.run_step({.shapes = shapes, .mode = mode});
    EXPECT_EQ(difference(step, *run.executor, unplaced), "") << "after step " << number;
    const bool updated = weights(step, *run.executor) != before;
    if (mode == StepMode::without_pending) {
      EXPECT_EQ(updated, others > 0);
    }
    if (mode == StepMode::pending_only) {
      EXPECT_EQ(updated, pending > 0);
    }
  }
}

TEST_P(EveryWindow, ADroppedStepChangesNoWeightAndIsAskedOnce) {
  const GeneratedStep step = streamed_step(GetParam());
  GeneratedRun run(step);
  ASSERT_TRUE(run.created.ok());
  UnplacedRun unplaced(step.workload, step.plan, step.programs);
  load(step, *run.executor, unplaced);
  load_batch(step, 0, *run.executor, unplaced);
  const std::vector<std::byte> before = weights(step, *run.executor);
  const std::vector<std::int32_t> shapes = step.largest_shapes();
  const std::span<std::byte> loss = run.executor->host_block("statistic.loss", 0).value();
  std::vector<std::byte> loss_when_asked;
  int asked = 0;
  StepTrace trace;
  const StepInput input{.shapes = shapes, .mode = StepMode::without_pending, .apply_updates = [&] {
                          ++asked;
                          loss_when_asked.assign(loss.begin(), loss.end());
                          return false;
                        }};
  ASSERT_TRUE(run.executor->run_step(input, trace).ok());
  EXPECT_TRUE(weights(step, *run.executor) == before);
  EXPECT_EQ(asked, GetParam() == Window::lazy ? 0 : 1);
  if (GetParam() == Window::after) {
    EXPECT_TRUE(std::ranges::equal(loss_when_asked, loss)) << "the losses were not known yet";
  }
  unplaced.run_step(input);
  EXPECT_EQ(difference(step, *run.executor, unplaced), "");
}

INSTANTIATE_TEST_SUITE_P(Executor,
                         EveryWindow,
                         testing::Values(Window::after, Window::fused, Window::lazy),
                         [](const auto& of) { return std::string(to_string(of.param)); });

/// The status that every failing step must end in, twice.
void expect_failure(GeneratedRun& run, const GeneratedStep& step, const Status& expected) {
  StepTrace trace;
  const std::vector<std::int32_t> shapes = step.largest_shapes();
  const StepInput input{.shapes = shapes, .mode = StepMode::without_pending};
  const Status first = run.executor->run_step(input, trace);
  EXPECT_EQ(first.code(), expected.code());
  EXPECT_NE(first.message().find(expected.message()), std::string::npos) << first.message();
  EXPECT_EQ(run.executor->run_step(input, trace), first) << "a failed executor must stay failed";
}

class BothOrders : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] ExecutorOptions options() const { return {.serial = GetParam()}; }
};

TEST_P(BothOrders, AFailingOpEndsTheStepWithItsStatus) {
  const GeneratedStep step = streamed_step(Window::after);
  for (int failing = 0; failing < 400; failing += 23) {
    GeneratedRun run(step, options());
    ASSERT_TRUE(run.created.ok());
    UnplacedRun unplaced(step.workload, step.plan, step.programs);
    load(step, *run.executor, unplaced);
    const Status expected = internal_error("op " + std::to_string(failing) + " fails");
    run.ops.before_op = [&expected, failing, n = 0]() mutable {
      return n++ == failing ? expected : Status();
    };
    expect_failure(run, step, expected);
  }
}

TEST_P(BothOrders, AFailingUpdateNamesItsTensor) {
  const GeneratedStep step = streamed_step(Window::after);
  const auto first_update =
      std::find_if(step.plan.tasks.begin(), step.plan.tasks.end(), [](const Task& task) {
        return task.kind == TaskKind::update;
      });
  ASSERT_NE(first_update, step.plan.tasks.end());
  std::size_t ops_before = 0;
  for (auto task = step.plan.tasks.begin(); task != first_update; ++task) {
    const Family& family = step.workload.families[task->family.index()];
    ops_before += step.programs[family.programs.back().index()].ops.size();
  }
  GeneratedRun run(step, options());
  UnplacedRun unplaced(step.workload, step.plan, step.programs);
  load(step, *run.executor, unplaced);
  run.ops.before_op = [ops_before, n = std::size_t{0}]() mutable {
    return n++ == ops_before ? invalid("not finite") : Status();
  };
  const std::string tensor =
      step.plan.allocations[first_update->operands.front().allocation.index()].what;
  expect_failure(run, step, invalid("update of " + tensor + ": not finite"));
}

TEST_P(BothOrders, AFailingRequestEndsTheStepWithItsStatus) {
  const GeneratedStep step = streamed_step(Window::after);
  for (const bool writes : {false, true}) {
    for (int failing = 0; failing < 30; failing += 3) {
      GeneratedRun run(step, options());
      ASSERT_TRUE(run.created.ok());
      UnplacedRun unplaced(step.workload, step.plan, step.programs);
      load(step, *run.executor, unplaced);
      const Status expected = io_error((writes ? "write " : "read ") + std::to_string(failing));
      run.drive->before = [&, n = 0](bool is_write, std::int64_t, std::size_t) mutable {
        return is_write == writes && n++ == failing ? expected : Status();
      };
      expect_failure(run, step, expected);
    }
  }
}

TEST_P(BothOrders, ADeviceThatStopsTakingWorkEndsTheStep) {
  const GeneratedStep step = streamed_step(Window::after);
  for (const int enqueues : {0, 1, 7, -1}) {
    GeneratedRun run(step);
    FaultyDevice device;
    ExecutorParts parts = run.parts();
    parts.device = &device;
    run.executor = Executor::create(parts, options()).value();
    UnplacedRun unplaced(step.workload, step.plan, step.programs);
    load(step, *run.executor, unplaced);
    device.fault.enqueues_left = enqueues;
    device.fault.at_end = enqueues < 0;
    expect_failure(run, step, device.fault.status);
    run.executor.reset();  // before its device
  }
}

INSTANTIATE_TEST_SUITE_P(Executor, BothOrders, testing::Bool(), [](const auto& of) {
  return std::string(of.param ? "serial" : "overlapped");
});

TEST(Executor, RefusesAStepOfOtherShapesAndStaysUsable) {
  const GeneratedStep step = streamed_step(Window::after);
  GeneratedRun run(step);
  UnplacedRun unplaced(step.workload, step.plan, step.programs);
  load(step, *run.executor, unplaced);
  StepTrace trace;
  std::vector<std::int32_t> shapes = step.largest_shapes();
  shapes.push_back(0);
  EXPECT_EQ(run.executor->run_step({.shapes = shapes}, trace).message(),
            "step with 3 micro-batches, the workload has 2");
  shapes.pop_back();
  shapes[1] = 2;
  EXPECT_EQ(run.executor->run_step({.shapes = shapes}, trace).message(),
            "step with shape 2, the workload has 2");
  shapes[1] = 1;
  EXPECT_TRUE(
      run.executor->run_step({.shapes = shapes, .mode = StepMode::without_pending}, trace).ok());
}

TEST(Executor, RefusesPartsThatDoNotFitTogether) {
  const GeneratedStep step = streamed_step(Window::after);
  GeneratedRun run(step);
  ExecutorParts parts = run.parts();
  parts.pool = nullptr;
  EXPECT_EQ(Executor::create(parts).status().message(),
            "the plan keeps blocks on nvme and there is no pool");
  Arena arena = Arena::create({.bytes = page_bytes, .lock = false}).value();
  FaultyDevice elsewhere(false);
  parts = run.parts();
  parts.device = &elsewhere;
  EXPECT_EQ(Executor::create(parts).status().message(),
            "device faulty: the plan was made for a device without memory of its own");
  parts = run.parts();
  parts.arena = &arena;
  EXPECT_NE(Executor::create(parts).status().message().find("host arena"), std::string::npos);
}

TEST(Executor, AHostBlockIsFoundByNameAndMicroBatch) {
  const GeneratedStep step = streamed_step(Window::after);
  GeneratedRun run(step);
  const auto first = run.executor->host_block("batch.tokens", 0);
  const auto second = run.executor->host_block("batch.tokens", 1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->size(), 4U * 128U);
  EXPECT_NE(first->data(), second->data());
  EXPECT_EQ(run.executor->host_block("batch.tokens").status().message(),
            "block 'batch.tokens' does not stay in host memory in this plan");
  EXPECT_EQ(run.executor->host_block("layer0.mlp.weight", 1).status().code(), Code::not_found);
}

}  // namespace
}  // namespace parbuckle
