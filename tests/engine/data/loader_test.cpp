#include "engine/data/loader.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/data/shuffle.h"
#include "tests/engine/data/byte_tokenizer.h"
#include "tests/engine/data/scratch_folder.h"

namespace parbuckle {
namespace {

using Ids = std::vector<std::int32_t>;

/// Rows of 2, 3, 4 ... tokens; row i holds the id i.
std::string rows_of_ids(int rows) {
  std::string lines;
  for (int i = 0; i < rows; ++i) {
    std::string ids;
    for (int k = 0; k < i + 2; ++k) {
      ids += (k == 0 ? "" : ",") + std::to_string(i);
    }
    lines += "{\"input_ids\":[" + ids + "]}\n";
  }
  return lines;
}

class LoaderTest : public testing::Test {
 protected:
  Dataset data(const std::string& lines, bool packing = false, std::int64_t max_length = 2048) {
    DatasetOptions options;
    options.work_directory = folder_.path();
    options.packing = packing;
    options.max_length = max_length;
    auto opened =
        Dataset::open(folder_.write(packing ? "d.txt" : "d.jsonl", lines), &tokenizer_, options);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return std::move(opened).value();
  }
  static std::vector<StepBatch> all(Loader& loader) {
    std::vector<StepBatch> steps;
    while (true) {
      auto step = loader.next();
      EXPECT_TRUE(step.ok());
      if (!step.ok() || !*step) {
        return steps;
      }
      steps.push_back(std::move(**step));
    }
  }

  ScratchFolder folder_;
  Tokenizer tokenizer_ = byte_tokenizer();
};

TEST(Batch, SequencesAreIsolatedAndTargetsShifted) {
  const std::vector<Example> examples = {{{7, 8, 9}, {no_label, 8, 9}, 1},
                                         {{5, 7}, {5, no_label}, 2}};
  StepBatch step;
  step.micro_batches.push_back(lay_out(examples));
  finish_step(step);
  const MicroBatch& batch = step.micro_batches[0];
  EXPECT_EQ(batch.rows, 64);
  EXPECT_EQ(batch.tokens, 5);
  EXPECT_EQ(batch.targets, 2);
  const auto first = [](const Ids& column) { return Ids(column.begin(), column.begin() + 6); };
  EXPECT_EQ(first(batch.token_ids), (Ids{7, 8, 9, 5, 7, -1}));
  EXPECT_EQ(first(batch.positions), (Ids{0, 1, 2, 0, 1, -1}));
  EXPECT_EQ(first(batch.segment_begin), (Ids{0, 0, 0, 3, 3, -1}));
  EXPECT_EQ(first(batch.target_ids), (Ids{8, 9, -1, -1, -1, -1}));
  EXPECT_EQ(first(batch.slots), (Ids{1, 2, 3, 0, 1, -1}));
  EXPECT_EQ(step.touched, (Ids{5, 7, 8, 9}));
  for (const Ids* column : {&batch.token_ids, &batch.positions, &batch.slots}) {
    EXPECT_EQ(column->size(), 64U);
    EXPECT_EQ(column->back(), -1);
  }
}

TEST(Shuffle, IsAPermutationThatDiffersByEpochAndSeed) {
  for (const std::int64_t rows : {1, 2, 3, 5, 64, 100, 1000, 7473}) {
    std::set<std::int64_t> seen;
    const Shuffle shuffle(rows, 42, 0);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t row = shuffle(i);
      EXPECT_TRUE(row >= 0 && row < rows);
      seen.insert(row);
    }
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), rows);
  }
  int same_epoch = 0;
  int same_seed = 0;
  int fixed = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t row = Shuffle(1000, 42, 0)(i);
    same_epoch += row == Shuffle(1000, 42, 1)(i) ? 1 : 0;
    same_seed += row == Shuffle(1000, 43, 0)(i) ? 1 : 0;
    fixed += row == i ? 1 : 0;
  }
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(same_seed, 10);
  EXPECT_LT(fixed, 10);
}

TEST_F(LoaderTest, KeepsTheLastPartialMicroBatchAndStep) {
  const Dataset rows = data(rows_of_ids(7));
  auto loader =
      Loader::create(rows, {.batch_rows = 2, .accumulation = 3, .epochs = 1.5, .shuffle = false});
  ASSERT_TRUE(loader.ok());
  EXPECT_EQ(loader->steps_per_epoch(), 2);
  EXPECT_EQ(loader->total_steps(), 3);
  const auto steps = all(*loader);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].micro_batches.size(), 3U);
  EXPECT_EQ(steps[1].micro_batches.size(), 1U);
  EXPECT_EQ(steps[1].micro_batches[0].sequences, 1);
  EXPECT_EQ(steps[1].touched, Ids{6});
  EXPECT_EQ(steps[2].epoch, 1);
  EXPECT_EQ(steps[2].micro_batches, steps[0].micro_batches);
  EXPECT_EQ(steps[0].targets, 1 + 2 + 3 + 4 + 5 + 6);
}

TEST_F(LoaderTest, ShuffledEpochsHoldEveryRowOnce) {
  const Dataset rows = data(rows_of_ids(50));
  auto loader = Loader::create(rows, {.batch_rows = 3, .accumulation = 2, .epochs = 2});
  ASSERT_TRUE(loader.ok());
  std::vector<Ids> epochs(2);
  for (const StepBatch& step : all(*loader)) {
    for (const MicroBatch& batch : step.micro_batches) {
      for (std::size_t row = 0; row < static_cast<std::size_t>(batch.tokens); ++row) {
        if (batch.positions[row] == 0) {
          epochs[static_cast<std::size_t>(step.epoch)].push_back(batch.token_ids[row]);
        }
      }
    }
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (Ids& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    ASSERT_EQ(epoch.size(), 50U);
    for (std::int32_t i = 0; i < 50; ++i) {
      EXPECT_EQ(epoch[static_cast<std::size_t>(i)], i);
    }
  }
}

TEST_F(LoaderTest, ResumesAtAnyCursorWithTheSameSteps) {
  const Dataset rows = data(rows_of_ids(11));
  const LoaderOptions options{.batch_rows = 2, .accumulation = 2, .max_steps = 8};
  auto whole = Loader::create(rows, options);
  ASSERT_TRUE(whole.ok());
  std::vector<DataCursor> cursors;
  std::vector<StepBatch> steps;
  for (int i = 0; i < 8; ++i) {
    cursors.push_back(*data_cursor_from_json(to_json(whole->cursor())));
    steps.push_back(**whole->next());
  }
  EXPECT_FALSE(whole->next()->has_value());
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    auto resumed = Loader::create(rows, options);
    ASSERT_TRUE(resumed->seek(cursors[i]).ok());
    EXPECT_EQ(**resumed->next(), steps[i]);
  }
  EXPECT_FALSE(whole->seek({.step = 1, .epoch = 0, .position = 3}).ok());
  EXPECT_FALSE(whole->seek({.step = 9, .epoch = 3, .position = 0}).ok());
  EXPECT_FALSE(data_cursor_from_json("{\"step\":1}").ok());
  EXPECT_FALSE(data_cursor_from_json("[").ok());
}

TEST_F(LoaderTest, RowCountsOfMicroBatchesAreKnownBeforehand) {
  const Dataset rows = data(rows_of_ids(90));
  for (const std::int64_t batch_rows : {1, 3}) {
    auto loader = Loader::create(rows, {.batch_rows = batch_rows, .accumulation = 4, .epochs = 2});
    const auto shapes = loader->micro_batch_rows();
    ASSERT_TRUE(shapes.ok());
    std::set<std::int64_t> seen;
    for (const StepBatch& step : all(*loader)) {
      for (const MicroBatch& batch : step.micro_batches) {
        seen.insert(batch.rows);
      }
    }
    EXPECT_EQ(*shapes, std::vector<std::int64_t>(seen.begin(), seen.end()));
  }
}

TEST_F(LoaderTest, PackedTextGivesFullMicroBatches) {
  const Dataset rows = data(std::string(10'000, 'x'), /*packing=*/true, 128);
  auto loader = Loader::create(rows, {.batch_rows = 4, .accumulation = 2});
  const auto steps = all(*loader);
  std::vector<std::int64_t> sizes;
  for (const StepBatch& step : steps) {
    for (const MicroBatch& batch : step.micro_batches) {
      sizes.push_back(batch.tokens);
    }
  }
  // The short last row stands somewhere in the shuffled order; all other micro-batches are 4 x 128 tokens.
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 512),
            static_cast<std::ptrdiff_t>(sizes.size()) - 2);
}

TEST_F(LoaderTest, OptionsThatMakeNoSenseAreRefused) {
  const Dataset rows = data(rows_of_ids(2));
  EXPECT_FALSE(Loader::create(rows, {.batch_rows = 0}).ok());
  EXPECT_FALSE(Loader::create(rows, {.accumulation = -1}).ok());
  EXPECT_FALSE(Loader::create(rows, {.epochs = 0}).ok());
  EXPECT_FALSE(Loader::create(rows, {.max_steps = 0}).ok());
}

}  // namespace
}  // namespace parbuckle
