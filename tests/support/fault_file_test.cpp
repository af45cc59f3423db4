#include "tests/support/fault_file.h"

#include <gtest/gtest.h>

#include "tests/support/page_buffer.h"

namespace parbuckle {
namespace {

PageBuffer pattern(std::int64_t bytes, std::uint32_t seed) {
  PageBuffer buffer(bytes);
  buffer.fill_pattern(seed);
  return buffer;
}

PageBuffer read_all(BlockFile& file, std::int64_t bytes) {
  PageBuffer back(bytes);
  const Status status = file.read(0, back.span());
  EXPECT_TRUE(status.ok()) << status.message();
  return back;
}

TEST(FaultDrive, WithoutFaultsItIsADrive) {
  FaultDrive drive;
  auto file = drive.open("pool");
  ASSERT_TRUE(file->preallocate(8 * page_bytes).ok());
  const PageBuffer out = pattern(3 * page_bytes, 1);
  ASSERT_TRUE(file->write(2 * page_bytes, out.span()).ok());
  ASSERT_TRUE(file->sync().ok());
  const PageBuffer back = read_all(*file, 8 * page_bytes);
  EXPECT_TRUE(same_bytes(back.span().subspan(2 * page_bytes, 3 * page_bytes), out.span()));
  EXPECT_EQ(back.data()[0], std::byte{0});
  PageBuffer beyond(page_bytes);
  EXPECT_NE(file->read(8 * page_bytes, beyond.span()).message().find("ends at 32768"),
            std::string::npos);
  EXPECT_EQ(drive.operations(), 5);
  EXPECT_TRUE(drive.injected().empty());
}

TEST(FaultDrive, ACrashKeepsWhatWasSyncedAndAnyPagesOfWhatWasNot) {
  constexpr std::int64_t pages = 64;
  const PageBuffer synced = pattern(pages * page_bytes, 1);
  const PageBuffer later = pattern(pages * page_bytes, 2);
  int kept = 0;
  int replaced = 0;
  int torn = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    FaultDrive drive({.seed = seed, .crash_at = 4});
    auto file = drive.open("pool");
    ASSERT_TRUE(file->write(0, synced.span()).ok());
    ASSERT_TRUE(file->sync().ok());
    ASSERT_TRUE(file->write(0, later.span()).ok());
    ASSERT_TRUE(file->write(pages * page_bytes, synced.span()).ok());
    const Status gone = file->sync();
    EXPECT_NE(gone.message().find("gone (operation 4, seed"), std::string::npos) << gone.message();
    EXPECT_TRUE(drive.crashed());
    EXPECT_FALSE(file->write(0, later.span()).ok());

    drive.restart({});
    EXPECT_FALSE(file->sync().ok()) << "a file of before the crash";
    auto reopened = drive.open("pool");
    const PageBuffer back = read_all(*reopened, pages * page_bytes);
    for (std::int64_t p = 0; p < pages; ++p) {
      const auto begin = static_cast<std::size_t>(p * page_bytes);
      const auto page = [begin](const PageBuffer& b) {
        return b.span().subspan(begin, page_bytes);
      };
      const bool old_bytes = same_bytes(page(back), page(synced));
      const bool new_bytes = same_bytes(page(back), page(later));
      kept += old_bytes ? 1 : 0;
      replaced += new_bytes ? 1 : 0;
      torn += !old_bytes && !new_bytes ? 1 : 0;
    }
  }
  EXPECT_GT(kept, 300);
  EXPECT_GT(replaced, 300);
  EXPECT_GT(torn, 50);
}

TEST(FaultDrive, ACrashNeverTouchesWhatWasSynced) {
  const PageBuffer out = pattern(16 * page_bytes, 3);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    FaultDrive drive({.seed = seed, .crash_at = 2});
    auto file = drive.open("record");
    ASSERT_TRUE(file->write(0, out.span()).ok());
    ASSERT_TRUE(file->sync().ok());
    EXPECT_FALSE(file->write(16 * page_bytes, out.span()).ok());
    drive.restart({});
    EXPECT_TRUE(same_bytes(read_all(*drive.open("record"), 16 * page_bytes).span(), out.span()));
  }
}

TEST(FaultDrive, WhatAFailedSyncWasToldToSaveMayBeLostLater) {
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    FaultDrive drive({.seed = seed, .failed = 0.5});
    auto file = drive.open("pool");
    const PageBuffer out = pattern(page_bytes, 4);
    if (!file->write(0, out.span()).ok() || file->sync().ok() || !file->sync().ok()) {
      continue;
    }
    drive.restart({});
    lost += same_bytes(read_all(*drive.open("pool"), page_bytes).span(), out.span()) ? 0 : 1;
  }
  EXPECT_GT(lost, 0);
}

TEST(FaultDrive, ASeedRepeatsItsFaults) {
  const auto play = [](std::uint64_t seed) {
    FaultDrive drive({.seed = seed,
                      .short_move = 0.05,
                      .failed = 0.05,
                      .no_space = 0.05,
                      .interrupted = 0.05,
                      .torn = 0.05,
                      .corrupt_read = 0.05,
                      .corrupt_write = 0.05,
                      .misdirected = 0.05});
    auto file = drive.open("pool");
    std::string story;
    for (std::int64_t i = 0; i < 60; ++i) {
      PageBuffer buffer = pattern(4 * page_bytes, static_cast<std::uint32_t>(i));
      story += file->write(i % 7 * page_bytes, buffer.span()).message() + "\n";
      story += file->read(0, buffer.span()).message() + "\n";
      story.append(reinterpret_cast<const char*>(buffer.data()), buffer.span().size());
      story += file->sync().message() + "\n";
    }
    return story + drive.report();
  };
  EXPECT_EQ(play(7), play(7));
  EXPECT_NE(play(7), play(8));
}

TEST(FaultDrive, EveryLoudFaultOfAWriteSaysWhatItIs) {
  const PageBuffer out = pattern(8 * page_bytes, 5);
  const auto answer = [&out](const FaultOptions& options) {
    FaultDrive drive(options);
    auto file = drive.open("pool");
    const Status status = file->write(0, out.span());
    EXPECT_EQ(drive.injected().size(), 1U);
    return status;
  };
  const auto says = [&answer](const FaultOptions& options, const char* cause) {
    const Status status = answer(options);
    EXPECT_EQ(status.code(), Code::io_error);
    EXPECT_NE(status.message().find(cause), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("write pool +0, 32768 bytes"), std::string::npos);
  };
  says({.failed = 1}, "Input/output error");
  says({.no_space = 1}, "No space left");
  says({.interrupted = 1}, "Interrupted");
  says({.short_move = 1}, "bytes moved");
  says({.torn = 1}, "Input/output error");
  EXPECT_TRUE(answer({.delayed = 1}).ok());
  EXPECT_TRUE(answer({.corrupt_write = 1}).ok());
  EXPECT_TRUE(answer({.misdirected = 1}).ok());
}

TEST(FaultDrive, ATornWriteLeavesSomeOfItsPages) {
  constexpr std::int64_t pages = 64;
  FaultDrive drive({.torn = 1});
  auto file = drive.open("pool");
  ASSERT_TRUE(file->preallocate(pages * page_bytes).ok());
  const PageBuffer out = pattern(pages * page_bytes, 9);
  EXPECT_FALSE(file->write(0, out.span()).ok());
  const PageBuffer back = read_all(*file, pages * page_bytes);
  int landed = 0;
  for (std::int64_t p = 0; p < pages; ++p) {
    const auto begin = static_cast<std::size_t>(p * page_bytes);
    landed +=
        same_bytes(back.span().subspan(begin, page_bytes), out.span().subspan(begin, page_bytes))
            ? 1
            : 0;
  }
  EXPECT_GT(landed, 16);
  EXPECT_LT(landed, 48);
}

TEST(FaultDrive, SilentFaultsChangeWhatIsReadAndNothingElse) {
  constexpr std::int64_t bytes = 16 * page_bytes;
  const auto differing_bytes = [](const FaultOptions& options, bool again) {
    FaultDrive drive(options);
    auto file = drive.open("pool");
    const PageBuffer out = pattern(bytes, 6);
    EXPECT_TRUE(file->preallocate(32 * page_bytes).ok());
    EXPECT_TRUE(file->write(0, out.span()).ok());
    PageBuffer back = read_all(*file, bytes);
    if (again) {
      EXPECT_TRUE(file->sync().ok());
      drive.restart({});
      back = read_all(*drive.open("pool"), bytes);
    }
    int differ = 0;
    for (std::size_t i = 0; i < back.span().size(); ++i) {
      differ += back.data()[i] == out.data()[i] ? 0 : 1;
    }
    return differ;
  };
  EXPECT_EQ(differing_bytes({.corrupt_read = 1}, false), 1);
  EXPECT_EQ(differing_bytes({.corrupt_read = 1}, true), 0);
  EXPECT_EQ(differing_bytes({.corrupt_write = 1}, false), 1);
  EXPECT_EQ(differing_bytes({.corrupt_write = 1}, true), 1);
  EXPECT_GT(differing_bytes({.misdirected = 1}, false), page_bytes);
}

TEST(FaultDrive, KnowsItsCapacity) {
  FaultDrive drive({.capacity_bytes = 4 * page_bytes});
  auto file = drive.open("pool");
  EXPECT_EQ(file->preallocate(5 * page_bytes).code(), Code::resource_exhausted);
  const PageBuffer out = pattern(2 * page_bytes, 7);
  EXPECT_TRUE(file->write(2 * page_bytes, out.span()).ok());
  EXPECT_NE(file->write(3 * page_bytes, out.span()).message().find("No space"), std::string::npos);
}

TEST(FaultDrive, ABitCanBeFlippedOnPurpose) {
  FaultDrive drive;
  auto file = drive.open("pool");
  const PageBuffer out = pattern(page_bytes, 8);
  ASSERT_TRUE(file->write(0, out.span()).ok());
  drive.flip_bit("pool", 100, 3);
  const PageBuffer back = read_all(*file, page_bytes);
  EXPECT_EQ(back.data()[100], out.data()[100] ^ std::byte{8});
  EXPECT_EQ(back.data()[101], out.data()[101]);
}

}  // namespace
}  // namespace parbuckle
