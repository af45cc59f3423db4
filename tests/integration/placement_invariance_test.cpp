// Placement never changes a number: the same training in every order, policy, window and budget ends in the same bits, and
// every run stays inside its budget of arena bytes.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/trainer.h"

#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

struct Variant {
  std::string order;
  std::string activations;
  std::string window;
  bool tight = false;  // the smallest budget that works
  std::string device = "cpu";
};

/// What evaluations before and after a run found.
struct EvalLosses : Observer {
  std::vector<double> losses;
  void on_eval(const EvalRecord& record) override { losses.push_back(record.eval_loss); }
};

class PlacementInvariance : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    PARBUCKLE_NEEDS_SHARED(std::string("fixtures/models/") + GetParam());
    work_ = fs::temp_directory_path() / ("parbuckle_invariance_" + std::to_string(::getpid()));
    fs::create_directories(work_ / "nvme");
    std::ofstream data(work_ / "rows.jsonl");
    for (int row = 0; row < 24; ++row) {  // rows of different lengths: several shapes
      data << "{\"input_ids\": [";
      const int length = 20 + (row * 37) % 160;
      for (int i = 0; i < length; ++i) {
        data << (i == 0 ? "" : ", ") << (row * 31 + i * 7) % 90;
      }
      data << "]}\n";
    }
  }
  void TearDown() override { fs::remove_all(work_); }

  TrainConfig config(const Variant& variant, double max_norm, bool evaluate = false) const {
    TrainConfig c;
    c.model = shared_file(std::string("fixtures/models/") + GetParam()).string();
    c.data = (work_ / "rows.jsonl").string();
    c.eval_data = evaluate ? c.data : "";
    c.output_dir = (work_ / "out").string();
    c.overwrite_output_dir = true;
    c.gradient_accumulation_steps = 4;
    c.max_steps = 5;
    c.learning_rate = 1e-3;
    c.weight_decay = 0.1;
    c.max_grad_norm = max_norm;
    c.dataset.max_length =
        std::string(GetParam()) == "gpt2_tied" ? 32 : 128;  // it has 32 positions
    c.order = variant.order;
    c.activations = variant.activations;
    c.optimizer_window = variant.window;
    c.memory.nvme_path = (work_ / "nvme").string();
    c.memory.device = variant.device;
    c.memory.threads = variant.device == "cpu" ? 2 : 0;
    c.memory.host_memory = variant.tight ? smallest(c) : "1GiB";
    return c;
  }

  /// What the refusal of an impossible budget says works.
  static std::string smallest(TrainConfig c) {
    c.memory.host_memory = "1MiB";
    return last_size(c, "MiB");
  }

  /// The least device memory of any choice; forced choices may need more.
  static std::string smallest_device(TrainConfig c) {
    c.memory.threads = 0;
    c.memory.device = "emulated:memory=4KiB,link=2GB/s,cores=2";
    return last_size(c, "KiB");
  }

  /// The size in this unit that stands last in the refusal.
  static std::string last_size(const TrainConfig& c, const std::string& unit) {
    Observer silent;
    const auto refused = plan(c, false, silent);
    EXPECT_FALSE(refused.ok());
    const std::string message = refused.status().message();
    const auto end = message.rfind(unit);
    EXPECT_NE(end, std::string::npos) << message;
    const auto begin = message.find_last_of(' ', end) + 1;
    return end == std::string::npos ? "1GiB" : message.substr(begin, end + unit.size() - begin);
  }

  fs::path work_;
};

TEST_P(PlacementInvariance, EveryPlacementEndsInTheSameBits) {
  for (const double max_norm : {0.0, 0.5}) {
    std::vector<Variant> variants{{"", "", "", false}, {"", "", "", true}};
    for (const char* order : {"layer-major", "2", "micro-batch-major"}) {
      for (const char* activations : {"keep", "spill", "recompute"}) {
        variants.push_back({order, activations, "after", false});
        variants.push_back({order, activations, "lazy", true});
        if (max_norm == 0) {
          variants.push_back({order, activations, "fused", true});
        }
      }
    }
    std::set<std::string> hashes;
    std::set<std::int64_t> moved;
    for (const Variant& variant : variants) {
      Observer silent;
      const auto report = train(config(variant, max_norm), silent);
      ASSERT_TRUE(report.ok()) << variant.order << " " << variant.activations << " "
                               << variant.window << ": " << report.status().message();
      hashes.insert(report->state_hash);
      moved.insert(report->nvme_read_bytes + report->nvme_written_bytes);
      EXPECT_EQ(hashes.size(), 1U)
          << variant.order << " " << variant.activations << " " << variant.window;
    }
    // Budgets are whole MiB and the models small, so several variants move the same.
    EXPECT_GE(moved.size(), 3U) << "the variants do not differ in what they move";
    EXPECT_TRUE(moved.contains(0)) << "with memory enough nothing moves";
  }
}

// Three tiers: the same bits as on the processor alone, in exactly the memory that the device has.
TEST_P(PlacementInvariance, EmulatedDevicesEndInTheSameBits) {
  for (const double max_norm : {0.0, 0.5}) {
    std::vector<Variant> variants{{"", "", "", false, "cpu"}};
    const std::string least = smallest_device(config({}, max_norm, true));
    for (const std::string& memory : {least, least + ",duplex=shared", std::string("64MiB")}) {
      const std::string device = "emulated:memory=" + memory + ",link=2GB/s,cores=2";
      variants.push_back({"", "", "", false, device});
      if (memory == "64MiB") {
        continue;
      }
      variants.push_back({"", "", "", true, device});
      variants.push_back({"", "recompute", "lazy", true, device});
      variants.push_back({"", "recompute", "after", true, device});
      if (max_norm == 0) {
        variants.push_back({"", "recompute", "fused", true, device});
      }
    }
    std::set<std::string> hashes;
    std::set<std::vector<double>> evaluations;
    std::set<std::int64_t> moved;
    for (const Variant& variant : variants) {
      EvalLosses observer;
      const auto report = train(config(variant, max_norm, true), observer);
      ASSERT_TRUE(report.ok()) << variant.device << " " << variant.window << ": "
                               << report.status().message();
      hashes.insert(report->state_hash);
      evaluations.insert(observer.losses);
      moved.insert(report->to_device_bytes);
      EXPECT_EQ(hashes.size(), 1U) << variant.device << " " << variant.window;
      EXPECT_EQ(evaluations.size(), 1U) << variant.device << " " << variant.window;
      EXPECT_EQ(report->measured_device_bytes, report->planned_device_bytes) << variant.device;
    }
    EXPECT_GE(moved.size(), 3U) << "the variants do not differ in what crosses the link";
  }
}

TEST_P(PlacementInvariance, OneMiBLessThanTheSmallestIsRefusedWithThatFigure) {
  TrainConfig c = config({}, 0.5);
  const std::string least = smallest(c);
  c.memory.host_memory = std::to_string(std::stoll(least) - 1) + "MiB";
  Observer silent;
  const auto refused = train(c, silent);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find(least), std::string::npos)
      << refused.status().message();
  EXPECT_FALSE(fs::exists(c.output_dir)) << "a refused run writes nothing";
}

INSTANTIATE_TEST_SUITE_P(Models,
                         PlacementInvariance,
                         testing::Values("llama_gqa_untied", "gpt2_tied", "qwen3"));

}  // namespace
}  // namespace parbuckle
