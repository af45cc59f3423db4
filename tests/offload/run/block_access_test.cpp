#include "offload/run/block_access.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "tests/support/faulty_file.h"
#include "tests/support/page_buffer.h"

namespace parbuckle {
namespace {

constexpr std::int64_t drive_bytes =
    3 * chunk_bytes + 1000;  // three chunks and a part that is not whole pages

/// Block 0 at an address, block 1 on a drive in memory, block 2 without a home.
class Access : public testing::Test {
 protected:
  void SetUp() override {
    workload.blocks = {{.name = "host", .bytes = 1000},
                       {.name = "drive", .bytes = drive_bytes},
                       {.name = "homeless", .bytes = 8}};
    auto made = std::make_unique<FaultyFile>(4 * mib);
    file = made.get();
    pool = Pool::over(std::move(made), 4 * mib);
    const ExtentId extent = pool->extent("drive", drive_bytes, false).value();
    access = std::make_unique<BlockAccess>(
        workload,
        pool.get(),
        nullptr,
        std::vector<BlockPlace>{{.address = host}, {.extent = extent}, {}});
  }

  /// Writes in pieces of `piece` bytes, reads in pieces of `other`, from memory that is aligned or just not.
  void round_trip(BlockId block, std::int64_t piece, std::int64_t other, std::int64_t shift) {
    const std::int64_t all = workload.blocks[block.index()].bytes;
    PageBuffer source(round_up(all + shift, page_bytes));
    PageBuffer target(round_up(all + shift, page_bytes));
    source.fill_pattern(static_cast<std::uint32_t>(piece + shift));
    const auto part = [shift](const PageBuffer& of, std::int64_t offset, std::int64_t bytes) {
      return of.span().subspan(static_cast<std::size_t>(shift + offset),
                               static_cast<std::size_t>(bytes));
    };
    for (std::int64_t at = 0; at < all; at += piece) {
      ASSERT_TRUE(access->write(block, at, part(source, at, std::min(piece, all - at))).ok());
    }
    for (std::int64_t at = 0; at < all; at += other) {
      ASSERT_TRUE(access->read(block, at, part(target, at, std::min(other, all - at))).ok());
    }
    EXPECT_TRUE(same_bytes(part(source, 0, all), part(target, 0, all)))
        << piece << " " << other << " " << shift;
  }

  Workload workload;
  std::byte host[1000] = {};
  FaultyFile* file = nullptr;
  std::unique_ptr<Pool> pool;
  std::unique_ptr<BlockAccess> access;
};

TEST_F(Access, GivesBackWhatWasWrittenInPiecesOfAnySize) {
  for (const std::int64_t shift : {0, 4, 1}) {
    round_trip(BlockId(0L), 77, 300, shift);
    for (const std::int64_t piece : {drive_bytes, std::int64_t{4096}, std::int64_t{100'003}}) {
      round_trip(BlockId(1L), piece, drive_bytes, shift);
      round_trip(BlockId(1L), drive_bytes, piece, shift);
    }
  }
}

TEST_F(Access, WholeChunksMoveWithoutACopyAndWithoutReadingFirst) {
  PageBuffer chunks(2 * chunk_bytes);
  ASSERT_TRUE(access->write(BlockId(1L), chunk_bytes, chunks.span()).ok());
  EXPECT_EQ(file->read_bytes(), 0);
  ASSERT_TRUE(access->read(BlockId(1L), chunk_bytes, chunks.span()).ok());
  EXPECT_EQ(file->read_bytes(), 2 * chunk_bytes);
}

TEST_F(Access, NeighbouringPartsOfAChunkReadAndWriteItOnce) {
  PageBuffer chunk(chunk_bytes);
  ASSERT_TRUE(access->write(BlockId(1L), 0, chunk.span()).ok());
  const std::int64_t written = file->written_bytes();
  for (std::int64_t at = 0; at < 3000; at += 100) {
    ASSERT_TRUE(access->write(BlockId(1L), at, std::vector<std::byte>(100, std::byte{7})).ok());
  }
  EXPECT_EQ(file->read_bytes(), chunk_bytes);
  EXPECT_EQ(file->written_bytes(), written) << "the chunk is still in the buffer";
  ASSERT_TRUE(access->flush().ok());
  EXPECT_EQ(file->written_bytes(), written + chunk_bytes);
}

TEST_F(Access, AWriteInsideAPageKeepsTheRestOfIt) {
  PageBuffer page(page_bytes);
  page.fill(3);
  ASSERT_TRUE(access->write(BlockId(1L), 0, page.span()).ok());
  ASSERT_TRUE(access->write(BlockId(1L), 10, std::vector<std::byte>(5, std::byte{9})).ok());
  ASSERT_TRUE(access->read(BlockId(1L), 0, page.span()).ok());
  EXPECT_EQ(std::ranges::count(page.span(), std::byte{9}), 5);
  EXPECT_EQ(std::ranges::count(page.span(), std::byte{3}), page_bytes - 5);
  EXPECT_EQ(page.span()[10], std::byte{9});
}

TEST_F(Access, RefusesWhatIsOutsideOrHasNoHome) {
  std::vector<std::byte> bytes(16);
  EXPECT_EQ(access->read(BlockId(0L), 990, bytes).message(),
            "block 'host' of 1000 bytes: range 990 + 16 is outside");
  EXPECT_EQ(access->write(BlockId(1L), -1, bytes).code(), Code::internal);
  EXPECT_EQ(access->read(BlockId(2L), 0, bytes).message(),
            "block 'homeless' has no home between steps");
  EXPECT_EQ(access->read(BlockId(3L), 0, bytes).message(), "block 3 does not exist");
  EXPECT_EQ(access->read(BlockId(), 0, bytes).message(), "block -1 does not exist");
}

TEST_F(Access, HandsTheDrivesErrorOn) {
  std::vector<std::byte> bytes(100);
  ASSERT_TRUE(access->write(BlockId(1L), 0, bytes).ok());
  ASSERT_TRUE(access->flush().ok());
  file->before = [](bool is_write, std::int64_t, std::size_t) {
    return io_error(is_write ? "no write" : "no read");
  };
  EXPECT_EQ(access->read(BlockId(1L), 0, bytes).message(), "no read");
  EXPECT_EQ(access->write(BlockId(1L), 0, bytes).message(), "no read") << "the rest of its chunk";
  EXPECT_EQ(access->write(BlockId(1L), 0, PageBuffer(chunk_bytes).span()).message(), "no write");
}

}  // namespace
}  // namespace parbuckle
