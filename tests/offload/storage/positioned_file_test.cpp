#include "offload/storage/positioned_file.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/page_buffer.h"
#include "tests/support/scratch_folder.h"

namespace parbuckle {
namespace {

using namespace std::chrono_literals;

class PositionedFileTest : public testing::Test {
 protected:
  std::unique_ptr<BlockFile> open(const PositionedFileOptions& options = {}) {
    auto file = PositionedFile::open(folder_.path() / "pool", options);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return std::move(file).value();
  }
  ScratchFolder folder_{"positioned_file"};
};

TEST_F(PositionedFileTest, WhatIsWrittenIsReadBack) {
  for (const bool direct : {true, false}) {
    auto file = open({.direct = direct});
    EXPECT_EQ(file->warning().empty(), file->engine().find("O_DIRECT") != std::string_view::npos);
    ASSERT_TRUE(file->preallocate(64 * mib).ok());
    for (const std::int64_t bytes : {page_bytes, 3 * page_bytes, 1 * mib, 17 * mib + page_bytes}) {
      PageBuffer out(bytes);
      PageBuffer back(bytes);
      out.fill_pattern(static_cast<std::uint32_t>(bytes));
      ASSERT_TRUE(file->write(5 * page_bytes, out.span()).ok());
      ASSERT_TRUE(file->read(5 * page_bytes, back.span()).ok());
      EXPECT_TRUE(same_bytes(out.span(), back.span())) << bytes;
    }
    EXPECT_TRUE(file->sync().ok());
  }
}

TEST_F(PositionedFileTest, ReadsAndWritesRunTogether) {
  auto file = open();
  constexpr std::int64_t bytes = 8 * mib;
  ASSERT_TRUE(file->preallocate(2 * bytes).ok());
  PageBuffer first(bytes);
  first.fill_pattern(1);
  ASSERT_TRUE(file->write(0, first.span()).ok());
  PageBuffer second(bytes);
  PageBuffer back(bytes);
  second.fill_pattern(2);
  std::thread writer([&] {
    for (int i = 0; i < 8; ++i) {
      EXPECT_TRUE(file->write(bytes, second.span()).ok());
    }
  });
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(file->read(0, back.span()).ok());
    EXPECT_TRUE(same_bytes(first.span(), back.span()));
  }
  writer.join();
  ASSERT_TRUE(file->read(bytes, back.span()).ok());
  EXPECT_TRUE(same_bytes(second.span(), back.span()));
}

TEST_F(PositionedFileTest, ShortAndInterruptedCallsAreContinued) {
  std::atomic<int> calls{0};
  PositionedFileOptions options;
  // Every second call is interrupted, every other moves an odd number of bytes less than asked.
  const auto cut = [&calls](std::size_t size) -> std::size_t {
    return calls++ % 2 == 0 || size <= 2 * page_bytes ? size : size / 2 + 1000;
  };
  std::atomic<int> interrupts{0};
  options.team.calls.pread = [&](int fd, void* to, std::size_t size, off_t offset) -> ssize_t {
    if (interrupts++ % 3 == 1) {
      errno = EINTR;
      return -1;
    }
    const std::size_t moved = cut(size);
    const ssize_t got = ::pread(fd, to, size, offset);
    return std::min(got, static_cast<ssize_t>(moved));
  };
  options.team.calls.pwrite = [&](int fd, const void* from, std::size_t size, off_t offset) {
    const std::size_t whole_pages = cut(size) / page_bytes * page_bytes;
    return ::pwrite(fd, from, whole_pages, offset);
  };
  auto file = open(options);
  PageBuffer out(9 * mib);
  PageBuffer back(9 * mib);
  out.fill_pattern(3);
  ASSERT_TRUE(file->preallocate(9 * mib).ok());
  ASSERT_TRUE(file->write(0, out.span()).ok());
  ASSERT_TRUE(file->read(0, back.span()).ok());
  EXPECT_TRUE(same_bytes(out.span(), back.span()));
  EXPECT_GT(calls, 2 * 9);
}

TEST_F(PositionedFileTest, NoProgressIsAnErrorThatNamesThePlace) {
  auto file = open();
  ASSERT_TRUE(file->preallocate(1 * mib).ok());
  PageBuffer back(2 * mib);
  const Status status = file->read(512 * kib, back.span());
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_NE(status.message().find("pool: read"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("no progress"), std::string::npos) << status.message();
}

TEST_F(PositionedFileTest, AnErrorOfTheDriveIsTheAnswer) {
  PositionedFileOptions options;
  options.team.calls.pwrite = [](int fd, const void* from, std::size_t size, off_t offset) {
    if (offset == 3 * mib) {
      errno = EIO;
      return ssize_t{-1};
    }
    return ::pwrite(fd, from, size, offset);
  };
  auto file = open(options);
  ASSERT_TRUE(file->preallocate(8 * mib).ok());
  PageBuffer out(8 * mib);
  const Status status = file->write(0, out.span());
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_NE(status.message().find("offset 3145728"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("Input/output error"), std::string::npos) << status.message();
  EXPECT_TRUE(file->write(4 * mib, out.span().first(1 * mib)).ok()) << "later requests still work";
}

TEST_F(PositionedFileTest, ADriveThatHangsIsReportedAfterTheDeadline) {
  struct Hang {
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;
    std::atomic<int> left{0};
  };
  const auto hang = std::make_shared<Hang>();
  PageBuffer back(4 * mib);
  PositionedFileOptions options;
  options.team.threads = 2;
  options.team.deadline_s = 0.2;
  options.team.calls.pread = [hang](int fd, void* to, std::size_t size, off_t offset) {
    if (offset == 2 * mib) {
      std::unique_lock lock(hang->mutex);
      hang->changed.wait(lock, [&] { return hang->over; });
      ++hang->left;
      return static_cast<ssize_t>(size);
    }
    return ::pread(fd, to, size, offset);
  };
  {
    auto file = open(options);
    ASSERT_TRUE(file->preallocate(4 * mib).ok());
    const auto begin = std::chrono::steady_clock::now();
    const Status status = file->read(0, back.span());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    EXPECT_EQ(status.code(), Code::io_error);
    EXPECT_NE(status.message().find("offset 2097152"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("not returned after"), std::string::npos) << status.message();
  }  // closing does not wait for the thread that hangs
  {
    const std::lock_guard lock(hang->mutex);
    hang->over = true;
    hang->changed.notify_all();
  }
  while (hang->left == 0) {
    std::this_thread::sleep_for(1ms);
  }
}

TEST_F(PositionedFileTest, RequestsThatAreNotWholePagesAreOurBug) {
  auto file = open();
  PageBuffer buffer(2 * page_bytes);
  EXPECT_EQ(file->read(1, buffer.span()).code(), Code::internal);
  EXPECT_EQ(file->read(0, buffer.span().first(100)).code(), Code::internal);
  EXPECT_EQ(file->write(0, buffer.span().subspan(8, page_bytes)).code(), Code::internal);
}

}  // namespace
}  // namespace parbuckle
