// Versions of blocks in the pool: what is committed stays, whatever is written afterwards.
#include <gtest/gtest.h>

#include "offload/storage/pool.h"
#include "tests/support/fault_file.h"
#include "tests/support/page_buffer.h"
#include "tests/support/scratch_folder.h"

namespace parbuckle {
namespace {

constexpr std::int64_t weight_bytes = 2 * chunk_bytes + 3 * page_bytes;
constexpr std::int64_t moment_bytes = chunk_bytes;

StoreLayout layout(std::int32_t slots, std::int64_t checkpoints) {
  return {.blocks = {{.name = "w", .bytes = weight_bytes, .slots = slots},
                     {.name = "m", .bytes = moment_bytes, .slots = slots, .starts_zero = true}},
          .spill_bytes = chunk_bytes,
          .checkpoints = checkpoints,
          .run_state_bytes = 1000};
}

/// A store with one weight and one moment on a drive in memory.
class Store : public testing::Test {
 protected:
  void make(std::int32_t slots, std::int64_t checkpoints) {
    auto pool = Pool::format(drive_.open("pool"), layout(slots, checkpoints));
    ASSERT_TRUE(pool.ok()) << pool.status().message();
    take(std::move(pool).value());
  }
  Status reopen(std::int64_t step = -1) {
    auto pool = Pool::recover(drive_.open("pool"), chunk_bytes, step);
    if (pool.ok()) {
      take(std::move(pool).value());
    }
    return pool.status();
  }
  void take(std::unique_ptr<Pool> pool) {
    pool_ = std::move(pool);
    w_ = pool_->extent("w", weight_bytes, false).value();
    m_ = pool_->extent("m", moment_bytes, true).value();
  }
  void write(ExtentId extent, std::int64_t bytes, std::uint32_t seed) {
    PageBuffer data(bytes);
    data.fill_pattern(seed);
    const Status status = pool_->write(extent, 0, data.span());
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void expect(ExtentId extent, std::int64_t bytes, std::uint32_t seed) {
    PageBuffer wanted(bytes);
    wanted.fill_pattern(seed);
    PageBuffer back(bytes);
    const auto read = pool_->read(extent, 0, back.span());
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_TRUE(same_bytes(wanted.span(), back.span())) << "not the bytes of seed " << seed;
  }
  void commit(std::int64_t step, bool checkpoint = false) {
    const Status status = pool_->commit(step, "state " + std::to_string(step), checkpoint);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  FaultDrive drive_;
  std::unique_ptr<Pool> pool_;
  ExtentId w_;
  ExtentId m_;
};

TEST_F(Store, WhatWasCommittedComesBackAndLaterWritesDoNot) {
  make(2, 0);
  write(w_, weight_bytes, 1);
  commit(7);
  write(w_, weight_bytes, 2);
  write(m_, moment_bytes, 3);
  expect(w_, weight_bytes, 2);
  ASSERT_TRUE(reopen().ok());
  ASSERT_EQ(pool_->versions().size(), 1U);
  EXPECT_EQ(pool_->versions().front().step, 7);
  EXPECT_EQ(pool_->versions().front().run_state, "state 7");
  expect(w_, weight_bytes, 1);
  PageBuffer zeros(moment_bytes);
  PageBuffer back(moment_bytes);
  back.fill(0xFF);
  EXPECT_EQ(pool_->read(m_, 0, back.span()).value(), 0) << "zeros stay virtual over a commit";
  EXPECT_TRUE(same_bytes(zeros.span(), back.span()));
}

TEST_F(Store, BetweenCommitsTheWorkingSlotIsOverwritten) {
  make(2, 0);
  for (std::uint32_t step = 1; step <= 6; ++step) {
    write(w_, weight_bytes, step);
    write(w_, weight_bytes, step + 100);  // as without commits in between
    expect(w_, weight_bytes, step + 100);
    if (step % 3 == 0) {
      commit(step);
    }
  }
  write(w_, weight_bytes, 50);
  ASSERT_TRUE(reopen().ok());
  expect(w_, weight_bytes, 106);
}

TEST_F(Store, CheckpointsStayUntilNewerOnesReplaceThem) {
  make(4, 2);
  for (std::uint32_t step = 1; step <= 9; ++step) {
    write(w_, weight_bytes, step);
    write(m_, moment_bytes, 100 + step);
    commit(step, step % 2 == 0);
  }
  ASSERT_EQ(pool_->versions().size(), 3U);
  ASSERT_TRUE(reopen(6).ok());
  expect(w_, weight_bytes, 6);
  expect(m_, moment_bytes, 106);
  EXPECT_EQ(pool_->versions().front().step, 6);
  ASSERT_TRUE(reopen().ok());
  EXPECT_EQ(pool_->versions().front().step, 6) << "going back to a checkpoint is itself committed";
  EXPECT_EQ(reopen(5).code(), Code::invalid_argument);
}

TEST_F(Store, ABlockWrittenInPartIsNotCommitted) {
  make(2, 0);
  write(w_, chunk_bytes, 1);
  const Status refused = pool_->commit(1, "", false);
  EXPECT_EQ(refused.code(), Code::internal);
  EXPECT_NE(refused.message().find("'w'"), std::string::npos);
  EXPECT_EQ(reopen().code(), Code::not_found);
}

TEST_F(Store, AVersionIsNeverChangedInItsMiddle) {
  make(2, 0);
  write(w_, weight_bytes, 1);
  commit(1);
  const PageBuffer chunk(chunk_bytes);
  EXPECT_EQ(pool_->write(w_, chunk_bytes, chunk.span()).code(), Code::internal);
  EXPECT_EQ(pool_->write(w_, 0, chunk.span().first(page_bytes)).code(), Code::internal);
}

TEST_F(Store, OneSlotServesWhatNeverChanges) {
  make(1, 0);
  write(w_, weight_bytes, 1);
  commit(1);
  commit(2);
  expect(w_, weight_bytes, 1);
  const PageBuffer data(weight_bytes);
  const Status refused = pool_->write(w_, 0, data.span());
  EXPECT_EQ(refused.code(), Code::internal);
  EXPECT_NE(refused.message().find("slots"), std::string::npos);
}

TEST_F(Store, TheFileIsAsLongAsItSays) {
  make(3, 1);
  EXPECT_EQ(pool_->bytes(), store_bytes(layout(3, 1)));
  EXPECT_EQ(pool_->bytes() - pool_->used_bytes(), chunk_bytes);
  EXPECT_TRUE(pool_->extent("spilled", chunk_bytes, false).ok());
  EXPECT_EQ(pool_->extent("more", page_bytes, false).status().code(), Code::resource_exhausted);
}

TEST(StoreOnADrive, CaseB76ExtentsAreWholePagesAndOddSizesComeBack) {
  const ScratchFolder folder("store");
  const auto open = [&] { return PositionedFile::open(folder.path() / "pool"); };
  StoreLayout odd = layout(2, 0);
  odd.blocks[0].bytes = round_up(34980, page_bytes);  // a tensor of case M2
  PageBuffer data(odd.blocks[0].bytes);
  data.fill_pattern(8);
  {
    auto pool = Pool::format(open().value(), odd);
    ASSERT_TRUE(pool.ok()) << pool.status().message();
    const auto w = (*pool)->extent("w", 34980, false);
    ASSERT_TRUE(w.ok());
    ASSERT_TRUE((*pool)->write(*w, 0, data.span()).ok());
    ASSERT_TRUE((*pool)->commit(3, "", false).ok());
  }
  auto pool = Pool::recover(open().value(), 0);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  PageBuffer back(odd.blocks[0].bytes);
  ASSERT_TRUE((*pool)->read(*(*pool)->extent("w", 34980, false), 0, back.span()).ok());
  EXPECT_TRUE(same_bytes(data.span(), back.span()));
  EXPECT_EQ((*pool)->bytes() % page_bytes, 0);
}

}  // namespace
}  // namespace parbuckle
