#include "offload/tier/arena.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

/// The lines of /proc/self/smaps about the mapping that starts at `data`.
std::string smaps_of(const void* data) {
  std::ostringstream start;
  start << std::hex << reinterpret_cast<std::uintptr_t>(data) << '-';
  std::ifstream file("/proc/self/smaps");
  std::string line;
  std::string found;
  bool inside = false;
  while (std::getline(file, line)) {
    const bool is_head = line.find('-') != std::string::npos &&
                         line.find("kB") == std::string::npos && line.rfind("VmFlags", 0) != 0;
    if (is_head) {
      inside = line.rfind(start.str(), 0) == 0;
    }
    if (inside) {
      found += line + '\n';
    }
  }
  return found;
}

std::int64_t resident_kib(const std::string& smaps) {
  const auto at = smaps.find("\nRss:");
  return at == std::string::npos ? -1 : std::stoll(smaps.substr(at + 5));
}

TEST(Arena, IsExactlyAsLargeAsAskedAndTakenOnDemand) {
  auto arena = Arena::create({.bytes = 64 * page_bytes, .lock = false});
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(arena->bytes(), 64 * page_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena->data()) % page_bytes, 0U);
  EXPECT_EQ(arena->warning(), "");
  EXPECT_EQ(resident_kib(smaps_of(arena->data())), 0);
  arena->data()[5 * page_bytes] = std::byte{1};
  EXPECT_EQ(resident_kib(smaps_of(arena->data())), 4);
  EXPECT_EQ(arena->data()[0], std::byte{0});
}

TEST(Arena, TouchTakesEveryPageNow) {
  auto arena = Arena::create({.bytes = 64 * page_bytes, .lock = false, .touch = true});
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(resident_kib(smaps_of(arena->data())), 64 * 4);
}

TEST(Arena, IsLeftOutOfCoreDumpsAndHasSmallPagesUnlessAsked) {
  auto small = Arena::create({.bytes = 4 * mib, .lock = false});
  auto large = Arena::create({.bytes = 4 * mib, .huge_pages = true, .lock = false});
  ASSERT_TRUE(small.ok() && large.ok());
  const std::string small_flags = smaps_of(small->data());
  EXPECT_NE(small_flags.find(" dd "), std::string::npos) << small_flags;
  EXPECT_EQ(small_flags.find(" hg "), std::string::npos) << small_flags;
  if (large->warning().empty()) {
    EXPECT_NE(smaps_of(large->data()).find(" hg "), std::string::npos);
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large->data()) % (2 * mib), 0U);
}

TEST(Arena, SaysOnceWhenItCannotBeLocked) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit small = before;
  small.rlim_cur = std::min<rlim_t>(before.rlim_max, 64 * 1024);
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &small), 0);
  auto arena = Arena::create({.bytes = 8 * mib});
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before), 0);
  ASSERT_TRUE(arena.ok());
  if (arena->locked()) {
    EXPECT_EQ(arena->warning(), "");  // a privileged process has no limit
  } else {
    EXPECT_NE(arena->warning().find("8.00 MiB"), std::string::npos) << arena->warning();
    EXPECT_NE(arena->warning().find("ulimit -l"), std::string::npos) << arena->warning();
  }
}

TEST(Arena, MovesAndRefusesImpossibleSizes) {
  auto arena = Arena::create({.bytes = page_bytes, .lock = false});
  ASSERT_TRUE(arena.ok());
  std::byte* const data = arena->data();
  Arena moved = std::move(arena).value();
  EXPECT_EQ(moved.data(), data);
  moved.data()[0] = std::byte{1};
  EXPECT_EQ(Arena::create({.bytes = 0}).status().code(), Code::invalid_argument);
  EXPECT_EQ(Arena::create({.bytes = std::int64_t{1} << 60}).status().code(),
            Code::resource_exhausted);
}

}  // namespace
}  // namespace parbuckle
