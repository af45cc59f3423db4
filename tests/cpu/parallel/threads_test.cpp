#include "cpu/parallel/threads.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/parallel/team.h"

namespace parbuckle::cpu {
namespace {

namespace fs = std::filesystem;

/// A laid-out /sys/fs/cgroup and /proc/self/cgroup, removed at the end.
class Groups : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() /
            ("parbuckle_threads_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)) + "_" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  [[nodiscard]] std::optional<int> quota() const {
    return quota_cores({root_ / "self", root_ / "mount"});
  }

  fs::path root_;
};

// B104: half a CPU is one thread.
TEST_F(Groups, QuotaOfVersion2IsRoundedUp) {
  write("self", "0::/user/job\n");
  write("mount/user/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 1);
  write("mount/user/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(Groups, TheTightestGroupOnTheWayUpCounts) {
  write("self", "0::/a/b\n");
  write("mount/a/b/cpu.max", "max 100000\n");
  write("mount/a/cpu.max", "300000 100000\n");
  write("mount/cpu.max", "900000 100000\n");
  EXPECT_EQ(quota(), 3);
}

TEST_F(Groups, AContainerSeesItsOwnGroupAtTheRoot) {
  write("self", "0::/not/mounted/here\n");
  write("mount/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(Groups, QuotaOfVersion1) {
  write("self", "12:memory:/x\n4:cpu,cpuacct:/job\n1:name=systemd:/y\n");
  write("mount/cpu/job/cpu.cfs_quota_us", "250000\n");
  write("mount/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3);
  write("mount/cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(Groups, NothingThereSetsNoLimit) {
  EXPECT_EQ(quota(), std::nullopt);
  write("self", "garbage\n0::/a\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST(Threads, TheLeastLimitWinsAndOneIsLeft) {
  EXPECT_EQ(thread_count({.affinity = 8}), 8);
  EXPECT_EQ(thread_count({.affinity = 8, .quota = 3}), 3);
  EXPECT_EQ(thread_count({.affinity = 2, .quota = 3, .omp_num_threads = 16}), 2);
  EXPECT_EQ(thread_count({.affinity = 8, .omp_num_threads = 4}), 4);
  EXPECT_EQ(thread_count({.affinity = 0}), 1);
}

TEST(Threads, OmpNumThreadsIsReadAsOpenMpDoes) {
  EXPECT_EQ(parse_omp_num_threads("4"), 4);
  EXPECT_EQ(parse_omp_num_threads(" 6,2"), 6);
  EXPECT_EQ(parse_omp_num_threads("0"), std::nullopt);
  EXPECT_EQ(parse_omp_num_threads(""), std::nullopt);
  EXPECT_EQ(parse_omp_num_threads("many"), std::nullopt);
}

TEST(Threads, TheWaitPolicyIsTheEnvironments) {
  setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
  EXPECT_TRUE(waits_passively());
  setenv("OMP_WAIT_POLICY", "active", 1);
  EXPECT_FALSE(waits_passively());
  unsetenv("OMP_WAIT_POLICY");
  EXPECT_FALSE(waits_passively());
}

TEST(Team, EveryIndexOnceWhateverTheDeal) {
  for (const int threads : {1, 2, 5}) {
    const Team team(threads);
    for (const std::int64_t count : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      std::atomic<bool> thread_in_range{true};
      const auto body = [&](std::int64_t index, int thread) {
        ++seen[static_cast<std::size_t>(index)];
        if (thread < 0 || thread >= threads) {
          thread_in_range = false;
        }
      };
      parallel_for(team, count, body);
      parallel_for_uneven(team, count, body);
      for (const auto& times : seen) {
        EXPECT_EQ(times, 2);
      }
      EXPECT_TRUE(thread_in_range);
    }
  }
}

// B61: ranges are cut with 64-bit arithmetic.
TEST(Team, RangesCoverCountsBeyond32Bits) {
  const Team team(3);
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{5}, std::int64_t{2'157'491'200}}) {
    std::mutex guard;
    std::set<std::pair<std::int64_t, std::int64_t>> pieces;
    parallel_ranges(team, count, 64, [&](std::int64_t begin, std::int64_t end) {
      const std::lock_guard lock(guard);
      pieces.emplace(begin, end);
    });
    std::int64_t at = 0;
    for (const auto& [begin, end] : pieces) {
      EXPECT_EQ(begin, at);
      EXPECT_TRUE(end % 64 == 0 || end == count);
      at = end;
    }
    EXPECT_EQ(at, count);
  }
}

}  // namespace
}  // namespace parbuckle::cpu
