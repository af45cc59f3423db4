// Training and evaluation as a user runs them, from model folder and jsonl to the saved folder, against the reference values.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/trainer.h"

#include "engine/checkpoint/model_folder.h"
#include "tests/support/fixture_model.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

class StepList : public Observer {
 public:
  void on_step(const StepRecord& record, std::int64_t /*total*/) override {
    records.push_back(record);
  }
  std::vector<StepRecord> records;
};

class FacadeParity : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    PARBUCKLE_NEEDS_SHARED("fixtures/models/" + GetParam());
    path_ = shared_file("fixtures/models/" + GetParam()).string();
    model_ = fixture_model(GetParam());
    const auto tokens = static_cast<std::size_t>(model_.tokens());
    write_rows("batch.jsonl",
               model_.batch,
               std::vector<std::size_t>(model_.batch.at("input_ids").size() / tokens, tokens));
    write_rows("documents.jsonl",
               model_.packed,
               model_.packed_numbers["lengths"].get<std::vector<std::size_t>>());
  }

  /// Consecutive records of these lengths.
  void write_rows(const char* file, const Tensors& from, const std::vector<std::size_t>& lengths) {
    std::ofstream out(scratch_.path() / file);
    std::size_t begin = 0;
    for (const std::size_t length : lengths) {
      nlohmann::json record;
      for (const char* const field : {"input_ids", "labels"}) {
        const double* const first = &from.at(field)[begin];
        record[field] = std::vector<std::int64_t>(first, first + length);
      }
      out << record << "\n";
      begin += length;
    }
  }

  std::string scratch(const char* name) const { return (scratch_.path() / name).string(); }

  TrainConfig train_config(double max_norm) const {
    TrainConfig c;
    c.model = path_;
    c.data = scratch("batch.jsonl");
    c.output_dir = scratch("out");
    c.overwrite_output_dir = true;
    c.per_device_train_batch_size = 2;
    c.gradient_accumulation_steps = 3;
    c.num_train_epochs = 5;  // of one step each
    c.learning_rate = 3e-3;
    c.lr_scheduler_type = "constant";
    c.warmup_ratio = 0;
    c.weight_decay = 0.1;
    c.adam_beta2 = 0.95;
    c.max_grad_norm = max_norm;
    c.shuffle = false;
    c.dataset.max_length = model_.tokens();
    c.memory.host_memory = "1GiB";
    c.memory.threads = 2;
    return c;
  }

  Result<EvalRecord> evaluated(const std::string& model, const char* data, bool packing) const {
    Observer silent;
    EvalConfig c;
    c.model = model;
    c.data = scratch(data);
    c.per_device_eval_batch_size = packing ? 1 : 2;
    c.dataset.max_length = model_.tokens();
    c.dataset.packing = packing;
    c.memory.host_memory = "1GiB";
    c.memory.threads = 2;
    return evaluate(c, silent);
  }

  /// Saved weights against the fixture's; entries whose gradient is noise are left out.
  void expect_saved_weights(const std::string& run) const {
    const auto saved = ModelFolder::open(scratch("out"));
    ASSERT_TRUE(saved.ok()) << saved.status().message();
    ASSERT_EQ(saved->parameters().size(), model_.weights.size());
    for (std::size_t p = 0; p < saved->parameters().size(); ++p) {
      const Parameter& parameter = saved->parameters()[p];
      std::vector<float> found(static_cast<std::size_t>(parameter.elements()));
      ASSERT_TRUE(saved->read(p, 0, parameter.elements(), found.data()).ok());
      const std::vector<double>& gradient = model_.expected.at("grad." + parameter.name);
      const std::vector<double>& expected = model_.expected.at(run + ".weight." + parameter.name);
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (std::abs(gradient[i]) >= noise_gradient) {
          ASSERT_NEAR(found[i], expected[i], weight_limit) << parameter.name << "[" << i << "]";
        }
      }
    }
  }

  ScratchFolder scratch_{"facade_parity"};
  std::string path_;
  FixtureModel model_;
};

TEST_P(FacadeParity, FiveStepsAndTheSavedFolderAreTheReference) {
  for (const std::string run : {"adamw", "clipped"}) {
    StepList steps;
    const auto report = train(train_config(run == "clipped" ? 0.5 : 0), steps);
    ASSERT_TRUE(report.ok()) << report.status().message();
    const auto& expected = model_.numbers[run];
    ASSERT_EQ(steps.records.size(), expected.size());
    for (std::size_t s = 0; s < expected.size(); ++s) {
      EXPECT_NEAR(steps.records[s].loss, expected[s]["loss"], loss_limit) << run << " " << s;
      EXPECT_NEAR(steps.records[s].grad_norm, expected[s]["grad_norm"], norm_limit)
          << run << " " << s;
    }
    expect_saved_weights(run);
    const auto after = evaluated(scratch("out"), "batch.jsonl", false);
    ASSERT_TRUE(after.ok()) << after.status().message();
    EXPECT_NEAR(after->eval_loss, model_.numbers[run + "_final_loss"], loss_limit) << run;
  }
}

TEST_P(FacadeParity, EvalGivesTheReferenceLossAlsoOfAPackedRow) {
  const auto batch = evaluated(path_, "batch.jsonl", false);
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_NEAR(batch->eval_loss, model_.numbers["loss"], loss_limit);
  const auto packed = evaluated(path_, "documents.jsonl", true);
  ASSERT_TRUE(packed.ok()) << packed.status().message();
  EXPECT_NEAR(packed->eval_loss, model_.packed_numbers["loss"], loss_limit);
  EXPECT_EQ(packed->targets, model_.packed_numbers["targets"].get<std::int64_t>());
}

INSTANTIATE_TEST_SUITE_P(Models,
                         FacadeParity,
                         testing::ValuesIn(parity_models()),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace parbuckle
