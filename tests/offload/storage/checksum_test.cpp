#include "offload/storage/checksum.h"

#include <cstring>
#include <string_view>

// A second build of the function, without vector instructions and inside this file.
#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_SCALAR
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wuseless-cast"
#pragma GCC diagnostic ignored "-Wcast-align"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <xxhash.h>
#pragma GCC diagnostic pop

#include <gtest/gtest.h>

#include "tests/support/page_buffer.h"

namespace parbuckle {
namespace {

std::uint64_t of_text(std::string_view text) {
  return checksum(std::as_bytes(std::span(text)));
}

// From the specification's test vectors, and what a file on a drive depends on.
TEST(Checksum, ValuesAreThoseOfXxh3) {
  EXPECT_EQ(of_text(""), 0x2D06800538D394C2ULL);
  EXPECT_EQ(of_text("a"), 0xE6C632B61E964E1FULL);
  EXPECT_EQ(of_text("abc"), 0x78AF5F94892F3950ULL);
}

TEST(Checksum, EveryInstructionSetGivesTheSame) {
  PageBuffer buffer(1 * mib + page_bytes);
  buffer.fill_pattern(11);
  for (const std::int64_t bytes :
       {std::int64_t{1}, std::int64_t{240}, std::int64_t{241}, page_bytes, 1 * mib + 13}) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, std::size_t{64}}) {
      const auto chunk = buffer.span().subspan(shift, static_cast<std::size_t>(bytes));
      EXPECT_EQ(checksum(chunk), XXH3_64bits(chunk.data(), chunk.size()))
          << bytes << " at " << shift;
    }
  }
}

TEST(Checksum, EveryFlippedBitOfAPageIsSeen) {
  PageBuffer page(page_bytes);
  page.fill_pattern(12);
  const std::uint64_t whole = checksum(page.span());
  for (std::byte& byte : page.span()) {
    for (int bit = 0; bit < 8; ++bit) {
      byte ^= std::byte{1} << bit;
      EXPECT_NE(checksum(page.span()), whole);
      byte ^= std::byte{1} << bit;
    }
  }
  EXPECT_EQ(checksum(page.span()), whole);
}

}  // namespace
}  // namespace parbuckle
