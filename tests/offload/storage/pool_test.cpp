#include "offload/storage/pool.h"

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "tests/support/faulty_file.h"
#include "tests/support/page_buffer.h"
#include "tests/support/scratch_folder.h"

namespace parbuckle {
namespace {

struct MemoryPool {
  explicit MemoryPool(std::int64_t bytes) {
    auto made = std::make_unique<FaultyFile>(bytes);
    file = made.get();
    pool = Pool::over(std::move(made), bytes);
  }
  FaultyFile* file;
  std::unique_ptr<Pool> pool;
};

TEST(Pool, KeepsBlocksApartOnARealDrive) {
  const ScratchFolder folder("pool");
  {
    auto pool = Pool::create({.folder = folder.path(), .bytes = 3 * mib});
    ASSERT_TRUE(pool.ok()) << pool.status().message();
    auto a = (*pool)->extent("a", 1 * mib, false);
    auto b = (*pool)->extent("b", 2 * mib - 100, false);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ((*pool)->used_bytes(), 3 * mib);
    PageBuffer out_a(1 * mib);
    PageBuffer out_b(2 * mib);
    PageBuffer back(2 * mib);
    out_a.fill_pattern(1);
    out_b.fill_pattern(2);
    ASSERT_TRUE((*pool)->write(*b, 0, out_b.span()).ok());
    ASSERT_TRUE((*pool)->write(*a, 0, out_a.span()).ok());
    const auto moved = (*pool)->read(*b, 0, back.span());
    ASSERT_TRUE(moved.ok());
    EXPECT_EQ(*moved, 2 * mib);
    EXPECT_TRUE(same_bytes(out_b.span(), back.span()));
    ASSERT_TRUE((*pool)->read(*a, 0, back.span().first(1 * mib)).ok());
    EXPECT_TRUE(same_bytes(out_a.span(), back.span().first(1 * mib)));
  }
  EXPECT_TRUE(folder.empty());
}

TEST(Pool, ZeroExtentsAreVirtualUntilWritten) {
  MemoryPool memory(4 * chunk_bytes);
  auto moments = memory.pool->extent("m", 4 * chunk_bytes, true);
  ASSERT_TRUE(moments.ok());
  PageBuffer back(4 * chunk_bytes);
  back.fill(0xFF);
  auto moved = memory.pool->read(*moments, 0, back.span());
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(*moved, 0);
  EXPECT_EQ(memory.file->read_bytes(), 0);
  EXPECT_TRUE(same_bytes(back.span(), PageBuffer(4 * chunk_bytes).span()));

  PageBuffer chunk(chunk_bytes);
  chunk.fill_pattern(9);
  ASSERT_TRUE(memory.pool->write(*moments, 2 * chunk_bytes, chunk.span()).ok());
  EXPECT_EQ(memory.file->written_bytes(), 3 * chunk_bytes)
      << "the gap before it becomes real zeros";
  back.fill(0xFF);
  moved = memory.pool->read(*moments, chunk_bytes, back.span().first(3 * chunk_bytes));
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(*moved, 2 * chunk_bytes);
  EXPECT_TRUE(same_bytes(back.span().subspan(chunk_bytes, chunk_bytes), chunk.span()));
  EXPECT_EQ(back.data()[0], std::byte{0});
  EXPECT_EQ(back.data()[2 * chunk_bytes], std::byte{0});
}

TEST(Pool, ABadChunkIsNamedWithBlockPathAndOffset) {
  MemoryPool memory(6 * chunk_bytes);
  ASSERT_TRUE(memory.pool->extent("first", 2 * chunk_bytes, false).ok());
  auto extent = memory.pool->extent("layer0.weight", 3 * chunk_bytes, false);
  ASSERT_TRUE(extent.ok());
  PageBuffer data(3 * chunk_bytes);
  data.fill_pattern(4);
  ASSERT_TRUE(memory.pool->write(*extent, 0, data.span()).ok());
  ASSERT_TRUE(memory.file->write(3 * chunk_bytes, PageBuffer(page_bytes).span()).ok());
  const auto bad = memory.pool->read(*extent, 0, data.span());
  EXPECT_EQ(bad.status().code(), Code::data_corrupt);
  const std::string message = bad.status().message();
  EXPECT_NE(message.find("faulty: "), std::string::npos) << message;
  EXPECT_NE(message.find("'layer0.weight'"), std::string::npos) << message;
  EXPECT_NE(message.find("offset " + std::to_string(3 * chunk_bytes)), std::string::npos)
      << message;
  EXPECT_TRUE(memory.pool->read(*extent, 2 * chunk_bytes, data.span().first(chunk_bytes)).ok());
}

TEST(Pool, WhatHasOneChecksumIsReadWhole) {
  MemoryPool memory(2 * chunk_bytes);
  auto extent = memory.pool->extent("spilled", 2 * chunk_bytes, false);
  ASSERT_TRUE(extent.ok());
  PageBuffer data(2 * chunk_bytes);
  ASSERT_TRUE(memory.pool->write(*extent, 0, data.span().first(3 * page_bytes)).ok());
  EXPECT_TRUE(memory.pool->read(*extent, 0, data.span().first(3 * page_bytes)).ok());
  EXPECT_EQ(memory.pool->read(*extent, 0, data.span().first(page_bytes)).status().code(),
            Code::internal);
  EXPECT_EQ(memory.pool->read(*extent, page_bytes, data.span().first(page_bytes)).status().code(),
            Code::internal);
}

TEST(Pool, ReadingWhatWasNeverWrittenNamesTheBlock) {
  MemoryPool memory(2 * page_bytes);
  auto extent = memory.pool->extent("layer0.weight", 2 * page_bytes, false);
  ASSERT_TRUE(extent.ok());
  PageBuffer back(2 * page_bytes);
  const auto refused = memory.pool->read(*extent, 0, back.span());
  EXPECT_EQ(refused.status().code(), Code::internal);
  EXPECT_NE(refused.status().message().find("layer0.weight"), std::string::npos);
  EXPECT_TRUE(memory.pool->read(*extent, 0, back.span(), true).ok());
}

TEST(Pool, NamesFindTheirExtentAgain) {
  MemoryPool memory(4 * page_bytes);
  auto first = memory.pool->extent("w", page_bytes, false);
  auto again = memory.pool->extent("w", page_bytes - 1, false);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_EQ(memory.pool->extent("w", 2 * page_bytes, false).status().code(), Code::internal);
  const auto full = memory.pool->extent("x", 4 * page_bytes, false);
  EXPECT_EQ(full.status().code(), Code::resource_exhausted);
  EXPECT_NE(full.status().message().find("'x'"), std::string::npos);
  EXPECT_EQ(memory.pool->write(*first, page_bytes, PageBuffer(page_bytes).span()).code(),
            Code::internal);
}

TEST(Pool, AnErrorOfTheFileIsHandedOn) {
  MemoryPool memory(2 * page_bytes);
  auto extent = memory.pool->extent("w", page_bytes, false);
  memory.file->before = [](bool is_write, std::int64_t, std::size_t) {
    return is_write ? io_error("no") : Status();
  };
  EXPECT_EQ(memory.pool->write(*extent, 0, PageBuffer(page_bytes).span()), io_error("no"));
  PageBuffer back(page_bytes);
  EXPECT_FALSE(memory.pool->read(*extent, 0, back.span()).ok())
      << "a write that failed has written nothing";
}

}  // namespace
}  // namespace parbuckle
