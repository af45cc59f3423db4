#include "engine/base/control_groups.h"

#include <fstream>
#include <string>

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

void add_with_ancestors(const fs::path& root, const fs::path& group, std::vector<fs::path>& to) {
  for (fs::path below = group.relative_path();; below = below.parent_path()) {
    to.push_back(root / below);
    if (below.empty()) {
      return;
    }
  }
}

/// "cpu" is in "cpu,cpuacct".
bool lists(const std::string& controllers, std::string_view controller) {
  const std::string wanted = "," + std::string(controller) + ",";
  return ("," + controllers + ",").find(wanted) != std::string::npos;
}

}  // namespace

std::vector<fs::path> control_groups(std::string_view controller, const ControlGroupFiles& files) {
  std::vector<fs::path> groups;
  std::ifstream in(files.self);
  for (std::string line; std::getline(in, line);) {  // hierarchy:controllers:/path
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      add_with_ancestors(files.mount, group, groups);
    } else if (lists(controllers, controller)) {  // mounted under either name
      add_with_ancestors(files.mount / controller, group, groups);
      if (controllers != controller) {
        add_with_ancestors(files.mount / controllers, group, groups);
      }
    }
  }
  return groups;
}

}  // namespace parbuckle
