// Placement never changes a number: the same training in every order, policy, window and budget ends in the same bits. Small
// models; smollm2_placements_test does the same on a real one.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/trainer.h"

#include "cpu/parallel/threads.h"
#include "tests/support/shared_path.h"
#include "tests/support/small_training.h"
#include "tests/support/smallest_budget.h"

namespace parbuckle {
namespace {

struct Variant {
  ForcedPlacement forced;
  bool tight = false;  // the smallest budget that works
};

std::vector<Variant> variants_of(bool clipping) {
  std::vector<Variant> variants{{{}, false}, {{}, true}};
  for (const char* order : {"layer-major", "2", "micro-batch-major"}) {
    for (const char* activations : {"keep", "spill", "recompute"}) {
      variants.push_back({{order, activations, "after"}, false});
      variants.push_back({{order, activations, "lazy"}, true});
      if (!clipping) {
        variants.push_back({{order, activations, "fused"}, true});
      }
    }
  }
  return variants;
}

/// What evaluations before and after a run found.
struct EvalLosses : Observer {
  std::vector<double> losses;
  void on_eval(const EvalRecord& record) override { losses.push_back(record.eval_loss); }
};

struct DeviceVariant {
  std::string device;
  ForcedPlacement forced;
  bool tight = false;  // the smallest host budget that works
};

/// Two devices of `least` KiB, the least that works, and one that holds everything.
std::vector<DeviceVariant> device_variants(std::int64_t least, bool clipping) {
  std::vector<DeviceVariant> variants{{"cpu", {}, false},
                                      {"emulated:memory=64MiB,link=2GB/s,cores=2", {}, false}};
  for (const char* duplex : {"full", "shared"}) {
    const std::string device =
        "emulated:memory=" + std::to_string(least) + "KiB,link=2GB/s,cores=2,duplex=" + duplex;
    variants.push_back({device, {}, false});
    variants.push_back({device, {}, true});
    variants.push_back({device, {"", "recompute", "lazy"}, true});
    variants.push_back({device, {"", "recompute", "after"}, true});
    if (!clipping) {
      variants.push_back({device, {"", "recompute", "fused"}, true});
    }
  }
  return variants;
}

/// Devices of one core, the optimizer on them or on the host's core beside them, several ways.
std::vector<DeviceVariant> optimizer_variants(std::int64_t least, bool clipping) {
  std::vector<DeviceVariant> variants{{"cpu", {}, false}};
  const std::string tiny = "emulated:memory=" + std::to_string(least) + "KiB,link=2GB/s,cores=1";
  const std::string roomy = "emulated:memory=64MiB,link=2GB/s,cores=1,duplex=shared";
  std::vector<std::string> windows{"after", "lazy"};
  if (!clipping) {
    windows.emplace_back("fused");
  }
  for (const std::string& window : windows) {
    variants.push_back({tiny, {"", "", window, "device"}, true});
    for (const bool tight : {false, true}) {
      variants.push_back({tiny, {"", "recompute", window, "cpu"}, tight});
      variants.push_back({roomy, {"", "", window, "cpu"}, tight});
    }
  }
  variants.push_back({roomy, {"micro-batch-major", "spill", "", "cpu"}, true});
  variants.push_back({tiny, {}, false});
  return variants;
}

/// Evaluates before and after the steps; an emulated device has threads of its own.
TrainConfig on_device(TrainConfig config, const std::string& device) {
  config.eval_data = config.data;
  config.memory.device = device;
  config.memory.threads = device == "cpu" ? 2 : 0;
  return config;
}

class PlacementInvariance : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { PARBUCKLE_NEEDS_SHARED(std::string("fixtures/models/") + GetParam()); }
};

TEST_P(PlacementInvariance, EveryPlacementEndsInTheSameBits) {
  const SmallTraining training(GetParam());
  for (const double max_norm : {0.0, 0.5}) {
    std::set<std::string> hashes;
    std::set<std::int64_t> moved;
    for (const Variant& variant : variants_of(max_norm > 0)) {
      const ForcedPlacement& forced = variant.forced;
      const std::string name = forced.order + " " + forced.activations + " " + forced.window;
      TrainConfig config = training.config(forced, max_norm);
      if (variant.tight) {
        config.memory.host_memory = mib_text(smallest_budget(config));
      }
      Observer silent;
      const auto report = train(config, silent);
      ASSERT_TRUE(report.ok()) << name << ": " << report.status().message();
      hashes.insert(report->state_hash);
      moved.insert(report->nvme_read_bytes + report->nvme_written_bytes);
      EXPECT_EQ(hashes.size(), 1U) << name;
    }
    // Budgets are whole MiB and the models small, so several variants move the same.
    EXPECT_GE(moved.size(), 3U) << "the variants do not differ in what they move";
    EXPECT_TRUE(moved.contains(0)) << "with memory enough nothing moves";
  }
}

// Three tiers: the same bits as on the processor alone, in exactly the memory that the device has.
TEST_P(PlacementInvariance, EmulatedDevicesEndInTheSameBits) {
  const SmallTraining training(GetParam());
  Observer silent;
  for (const double max_norm : {0.0, 0.5}) {
    const TrainConfig tiny =
        on_device(training.config({}, max_norm), "emulated:memory=4KiB,link=2GB/s,cores=2");
    const std::int64_t least = smallest_named(plan(tiny, false, silent).status().message());
    ASSERT_GT(least, 0);
    std::set<std::string> hashes;
    std::set<std::vector<double>> evaluations;
    std::set<std::int64_t> moved;
    for (const DeviceVariant& variant : device_variants(least, max_norm > 0)) {
      SCOPED_TRACE(variant.device + " " + variant.forced.window);
      TrainConfig config = on_device(training.config(variant.forced, max_norm), variant.device);
      if (variant.tight) {
        config.memory.host_memory = mib_text(smallest_budget(config));
      }
      EvalLosses observer;
      const auto report = train(config, observer);
      ASSERT_TRUE(report.ok()) << report.status().message();
      hashes.insert(report->state_hash);
      evaluations.insert(observer.losses);
      moved.insert(report->to_device_bytes);
      EXPECT_EQ(hashes.size(), 1U);
      EXPECT_EQ(evaluations.size(), 1U);
      EXPECT_EQ(report->measured_device_bytes, report->planned_device_bytes);
    }
    EXPECT_GE(moved.size(), 3U) << "the variants do not differ in what crosses the link";
  }
}

// The optimizer has the same bits wherever it runs: on the device, or on the host's own core beside it.
TEST_P(PlacementInvariance, OptimizerOnTheHostEndsInTheSameBits) {
  if (cpu::thread_count(cpu::thread_limits()) < 2) {
    GTEST_SKIP() << "needs a core beside that of the device";
  }
  const SmallTraining training(GetParam());
  Observer silent;
  for (const double max_norm : {0.0, 0.5}) {
    TrainConfig tiny = on_device(training.config({"", "", "", "device"}, max_norm),
                                 "emulated:memory=4KiB,link=2GB/s,cores=1");
    const std::int64_t least = smallest_named(plan(tiny, false, silent).status().message());
    ASSERT_GT(least, 0);
    std::set<std::string> hashes;
    std::set<std::vector<double>> evaluations;
    for (const DeviceVariant& variant : optimizer_variants(least, max_norm > 0)) {
      SCOPED_TRACE(variant.device + " " + variant.forced.window + " " + variant.forced.optimizer);
      TrainConfig config = on_device(training.config(variant.forced, max_norm), variant.device);
      config.memory.threads = variant.device == "cpu" ? 1 : 0;
      if (variant.tight) {
        config.memory.host_memory = mib_text(smallest_budget(config));
      }
      EvalLosses observer;
      const auto report = train(config, observer);
      ASSERT_TRUE(report.ok()) << report.status().message();
      hashes.insert(report->state_hash);
      evaluations.insert(observer.losses);
      EXPECT_EQ(hashes.size(), 1U);
      EXPECT_EQ(evaluations.size(), 1U);
      EXPECT_EQ(report->measured_device_bytes, report->planned_device_bytes);
    }
  }
}

TEST_P(PlacementInvariance, OneMiBLessThanTheSmallestIsRefusedWithThatFigure) {
  const SmallTraining training(GetParam());
  TrainConfig config = training.config({}, 0.5);
  const std::int64_t least = smallest_budget(config);
  ASSERT_GT(least, 0);
  config.memory.host_memory = mib_text(least - 1);
  Observer silent;
  const auto refused = train(config, silent);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(smallest_named(refused.status().message()), least) << refused.status().message();
  EXPECT_FALSE(std::filesystem::exists(config.output_dir)) << "a refused run writes nothing";
}

INSTANTIATE_TEST_SUITE_P(Models,
                         PlacementInvariance,
                         testing::Values("llama_gqa_untied", "gpt2_tied", "qwen3"));

}  // namespace
}  // namespace parbuckle
