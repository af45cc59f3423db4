// The control groups that this process is in, whichever version the machine mounts: where limits are read from.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace parbuckle {

/// Given so that tests can lay them out.
struct ControlGroupFiles {
  std::filesystem::path self = "/proc/self/cgroup";
  std::filesystem::path mount = "/sys/fs/cgroup";
};

/// Folders of the process's group and of all its ancestors up to the mount, nearest first: of the one hierarchy of version 2, and of
/// version 1's for `controller` ("cpu", "memory"). They need not exist: a container often mounts only its own group, at the root,
/// while the path is the host's. A limit holds for all groups below, so the tightest of them rules.
std::vector<std::filesystem::path> control_groups(std::string_view controller,
                                                  const ControlGroupFiles& files = {});

}  // namespace parbuckle
