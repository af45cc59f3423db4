#include "tools/parbuckle/arguments.h"

#include <gtest/gtest.h>

#include "tools/parbuckle/progress.h"

namespace parbuckle::tool {
namespace {

Result<TrainConfig> read(const std::vector<std::string>& arguments) {
  PARBUCKLE_ASSIGN(const auto config, read_config<TrainConfig>("train", "", arguments));
  return config.value_or(TrainConfig{});
}

TEST(Arguments, HyphensUnderscoresAndAliasesMeanTheSame) {
  for (const std::vector<std::string>& line : std::vector<std::vector<std::string>>{
           {"--gradient-accumulation-steps", "4", "--learning-rate=2e-5", "--packing"},
           {"--gradient_accumulation_steps=4", "--lr", "2e-5", "--packing", "true"},
           {"--grad_accumulation", "4", "--learning_rate", "0.00002", "--sample-packing=yes"}}) {
    const auto config = read(line);
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->gradient_accumulation_steps, 4);
    EXPECT_DOUBLE_EQ(config->learning_rate, 2e-5);
    EXPECT_TRUE(config->dataset.packing);
  }
}

TEST(Arguments, BooleansAndNegativeNumbersAreValues) {
  const auto config =
      read({"--shuffle", "false", "--max-steps", "-1", "--overwrite-output-dir", "--model", "m"});
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_FALSE(config->shuffle);
  EXPECT_TRUE(config->overwrite_output_dir);
  EXPECT_EQ(config->max_steps, -1);
  EXPECT_EQ(config->model, "m");
}

TEST(Arguments, UnknownOptionsAreRefusedWithTheNearest) {
  const auto config = read({"--gradient-acumulation-steps", "4"});
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.status().message().find("did you mean --gradient-accumulation-steps?"),
            std::string::npos)
      << config.status().message();
  EXPECT_FALSE(read({"--learning-rate", "fast"}).ok());
  EXPECT_FALSE(read({"--learning-rate"}).ok());
  EXPECT_FALSE(read({"stray"}).ok());
}

TEST(Arguments, DefaultsAreTheDocumentedOnes) {
  const TrainConfig config;
  EXPECT_EQ(config.per_device_train_batch_size, 1);
  EXPECT_EQ(config.gradient_accumulation_steps, 8);
  EXPECT_DOUBLE_EQ(config.learning_rate, 1e-5);
  EXPECT_EQ(config.lr_scheduler_type, "cosine");
  EXPECT_EQ(config.seed, 42);
}

TEST(Progress, OneLineSaysWhereTheStepStands) {
  const StepRecord record{.step = 12,
                          .loss = 0.93771,
                          .grad_norm = 3.091,
                          .learning_rate = 2e-5,
                          .tokens = 820,
                          .step_seconds = 2,
                          .nvme_read_bytes = 1 << 30};
  const std::string line = step_line(record, 60, 125);
  for (const char* part :
       {"step 12/60", "loss 0.9377", "410 tok/s", "read 1.00 GiB", "eta 2 min 05 s"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  }
}

}  // namespace
}  // namespace parbuckle::tool
