#include <filesystem>
#include <fstream>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "offload/probe/drive_rates.h"
#include "offload/probe/fingerprint.h"
#include "offload/probe/host_memory.h"
#include "offload/probe/process_memory.h"

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

/// A machine of 24 GiB with 20 GiB free, in files.
class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("parbuckle_probe_" + std::to_string(::getpid()));
    write(folder_ / "meminfo",
          "MemTotal:       25165824 kB\nMemFree: 1 kB\nMemAvailable:   20971520 kB\n");
    files_ = {folder_ / "meminfo", folder_ / "cgroup", folder_ / "mount"};
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  MemoryFiles files_;
};

TEST_F(HostMemory, WithoutControlGroupsIsWhatTheKernelHasFree) {
  const auto memory = host_memory(files_);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_EQ(memory->bytes, 24 * gib);
  EXPECT_EQ(memory->free_bytes, 20 * gib);
  EXPECT_EQ(memory->limited_by, "MemAvailable");
}

TEST_F(HostMemory, AnAncestorsLimitRulesInVersionTwo) {
  write(folder_ / "cgroup", "0::/user/run\n");
  write(folder_ / "mount/user/run/memory.max", "max\n");
  write(folder_ / "mount/user/memory.max", "268435456\n");
  write(folder_ / "mount/user/memory.current", "1048576\n");
  const auto memory = host_memory(files_);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->free_bytes, 255 * mib);
  EXPECT_EQ(memory->bytes, 256 * mib);
  EXPECT_NE(memory->limited_by.find("user/memory.max"), std::string::npos);
}

TEST_F(HostMemory, VersionOneSaysNoLimitWithANumber) {
  write(folder_ / "cgroup", "4:memory:/job\n3:cpu:/job\n");
  write(folder_ / "mount/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(host_memory(files_)->free_bytes, 20 * gib);
  write(folder_ / "mount/memory/job/memory.limit_in_bytes", "536870912\n");
  EXPECT_EQ(host_memory(files_)->free_bytes, 512 * mib);
}

TEST(ProcessMemory, PeakFollowsWhatIsTouched) {
  const auto before = process_memory();
  ASSERT_TRUE(before.ok());
  const std::vector<char> touched(static_cast<std::size_t>(32 * mib), 1);
  const auto after = process_memory();
  EXPECT_GE(after->resident_bytes, before->resident_bytes + 31 * mib);
  EXPECT_GE(after->peak_bytes, after->resident_bytes);
  EXPECT_EQ(touched.back(), 1);
}

TEST(Probe, MeasuresTheDriveAndNamesTheMachine) {
  const auto rates = measure_drive(fs::current_path(), 32 * mib);
  ASSERT_TRUE(rates.ok()) << rates.status().message();
  for (const double rate : {rates->read_bytes_per_s,
                            rates->write_bytes_per_s,
                            rates->duplex_read_bytes_per_s,
                            rates->duplex_write_bytes_per_s}) {
    EXPECT_GT(rate, 1e6);
  }
  EXPECT_FALSE(machine_fingerprint().empty());
  EXPECT_EQ(machine_fingerprint(), machine_fingerprint());
}

}  // namespace
}  // namespace parbuckle
