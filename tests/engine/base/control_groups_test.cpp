#include "engine/base/control_groups.h"

#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace parbuckle {
namespace {

using Paths = std::vector<std::filesystem::path>;

Paths groups(const std::string& controller, const std::string& self) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("parbuckle_groups_" + std::to_string(::getpid()));
  std::ofstream(file) << self;
  const Paths found = control_groups(controller, {file, "/mount"});
  std::filesystem::remove(file);
  return found;
}

TEST(ControlGroups, TheOneHierarchyOfVersionTwoHoldsForEveryController) {
  const Paths expected{"/mount/user/run", "/mount/user", "/mount/"};
  EXPECT_EQ(groups("memory", "0::/user/run\n"), expected);
  EXPECT_EQ(groups("cpu", "0::/user/run\n"), expected);
  EXPECT_EQ(groups("cpu", "0::/\n"), Paths{"/mount/"});
}

TEST(ControlGroups, VersionOneHasAHierarchyPerControllerUnderEitherName) {
  const std::string self =
      "4:cpu,cpuacct:/job\n3:memory:/a/b\n2:cpuset:/other\n1:name=systemd:/y\n";
  EXPECT_EQ(
      groups("cpu", self),
      (Paths{"/mount/cpu/job", "/mount/cpu/", "/mount/cpu,cpuacct/job", "/mount/cpu,cpuacct/"}));
  EXPECT_EQ(groups("memory", self),
            (Paths{"/mount/memory/a/b", "/mount/memory/a", "/mount/memory/"}));
  EXPECT_EQ(groups("pids", self), Paths{});
}

TEST(ControlGroups, OtherLinesAndNoFileAreNoGroups) {
  EXPECT_EQ(groups("cpu", "garbage\n\n0:cpu\n"), Paths{});
  EXPECT_EQ(control_groups("cpu", {"/does/not/exist", "/mount"}), Paths{});
}

}  // namespace
}  // namespace parbuckle
