#include "offload/storage/commit_record.h"

#include <gtest/gtest.h>

#include "offload/storage/commit_log.h"
#include "tests/support/fault_file.h"
#include "tests/support/page_buffer.h"

namespace parbuckle {
namespace {

CommitRecord example(std::int64_t step) {
  CommitRecord record;
  record.blocks = {{.name = "a", .bytes = 3 * chunk_bytes, .offset = 4096, .slots = 2},
                   {.name = "b", .bytes = page_bytes, .offset = 8192, .starts_zero = true}};
  record.versions = {{.step = step,
                      .checkpoint = true,
                      .run_state = "{\"x\": 1}",
                      .blocks = {{.slot = 1,
                                  .written = 3 * chunk_bytes,
                                  .checksums = {1, 2, static_cast<std::uint64_t>(step)}},
                                 {}}}};
  return record;
}

TEST(CommitRecord, BytesGiveTheRecordBack) {
  const CommitRecord record = example(5);
  const auto bytes = encode(record);
  const auto back = decode(bytes);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, record);
  EXPECT_LE(static_cast<std::int64_t>(bytes.size()), encoded_bytes(record.blocks, 1, 8));
}

TEST(CommitRecord, EveryShorterOrLongerFormIsRefused) {
  auto bytes = encode(example(5));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode(std::span(bytes).first(size)).status().code(), Code::data_corrupt) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_EQ(decode(bytes).status().code(), Code::data_corrupt);
}

class LogOnDrive : public testing::Test {
 protected:
  void SetUp() override {
    file_ = drive_.open("log");
    ASSERT_TRUE(file_->preallocate(CommitLog::bytes_for(4096)).ok());
  }
  void commit(CommitLog& log, std::int64_t step) {
    const Status status = log.write(*file_, example(step));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void flip(std::int64_t offset) { drive_.flip_bit("log", offset, 3); }
  std::int64_t step_of(const Result<CommitLog>& log) {
    return log.ok() ? log->record().versions.front().step : -1;
  }
  FaultDrive drive_;
  std::unique_ptr<BlockFile> file_;
};

TEST_F(LogOnDrive, TheNewestOfTwoIsFound) {
  EXPECT_EQ(CommitLog::recover(*file_).status().code(), Code::not_found);
  auto log = CommitLog::format(*file_, 4096);
  ASSERT_TRUE(log.ok());
  EXPECT_TRUE(CommitLog::recover(*file_)->record().versions.empty());
  for (const std::int64_t step : {1, 2, 3}) {
    commit(*log, step);
    const auto found = CommitLog::recover(*file_);
    EXPECT_EQ(step_of(found), step);
    EXPECT_EQ(found->warning(), "");
  }
}

TEST_F(LogOnDrive, ADamagedPageOrMapLeavesTheOlderOne) {
  auto log = CommitLog::format(*file_, 4096);
  commit(*log, 1);  // page 1, region 1
  commit(*log, 2);  // page 0, region 0
  flip(8);
  auto found = CommitLog::recover(*file_);
  EXPECT_EQ(step_of(found), 1);
  EXPECT_NE(found->warning().find("log: a commit record is torn"), std::string::npos);
  flip(8);
  EXPECT_EQ(step_of(CommitLog::recover(*file_)), 2);
  flip(2 * page_bytes + 40);
  found = CommitLog::recover(*file_);
  EXPECT_EQ(step_of(found), 1);
  EXPECT_NE(found->warning(), "");
  flip(page_bytes + 8);
  const auto lost = CommitLog::recover(*file_);
  EXPECT_EQ(lost.status().code(), Code::data_corrupt);
  EXPECT_NE(lost.status().message().find("both commit records are damaged"), std::string::npos);
}

TEST_F(LogOnDrive, AfterAnErrorNothingMoreIsWritten) {
  auto log = CommitLog::format(*file_, 4096);
  commit(*log, 1);
  drive_.restart({.crash_at = 1});  // the write of the map
  file_ = drive_.open("log");
  EXPECT_FALSE(log->write(*file_, example(2)).ok());
  drive_.restart({});
  file_ = drive_.open("log");
  EXPECT_FALSE(log->write(*file_, example(2)).ok());
  EXPECT_EQ(step_of(CommitLog::recover(*file_)), 1);
}

TEST_F(LogOnDrive, ARecordThatDoesNotFitIsAnError) {
  auto log = CommitLog::format(*file_, 4096);
  CommitRecord record = example(1);
  record.versions.front().run_state.assign(5000, 'x');
  EXPECT_EQ(log->write(*file_, record).code(), Code::internal);
}

}  // namespace
}  // namespace parbuckle
