#include "offload/probe/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

/// v1 writes this (PAGE_COUNTER_MAX in bytes) where there is no limit.
constexpr std::int64_t v1_no_limit = 9223372036854771712;

std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  std::int64_t value = 0;
  if (!(in >> word) ||
      std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc()) {
    return std::nullopt;  // absent, or "max"
  }
  return value;
}

Result<std::int64_t> meminfo(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    std::int64_t value = 0;
    if (word == key && in >> value) {
      return value * kib;
    }
  }
  return io_error(file.string() + ": no " + key);
}

/// One limit of one group: what is left under it narrows the capacity.
void narrow(TierCapacity& capacity,
            const fs::path& folder,
            const char* limit_file,
            const char* usage_file) {
  const auto limit = number_in(folder / limit_file);
  if (!limit || *limit >= v1_no_limit) {
    return;
  }
  const std::int64_t left =
      std::max<std::int64_t>(0, *limit - number_in(folder / usage_file).value_or(0));
  capacity.bytes = std::min(capacity.bytes, *limit);
  if (left < capacity.free_bytes) {
    capacity.free_bytes = left;
    capacity.limited_by = (folder / limit_file).string();
  }
}

}  // namespace

Result<TierCapacity> host_memory(const MemoryFiles& files) {
  TierCapacity capacity{.tier = Tier::host, .name = "host", .limited_by = "MemAvailable"};
  PARBUCKLE_ASSIGN(capacity.bytes, meminfo(files.meminfo, "MemTotal:"));
  PARBUCKLE_ASSIGN(capacity.free_bytes, meminfo(files.meminfo, "MemAvailable:"));
  for (const fs::path& group : control_groups("memory", files.groups)) {
    narrow(capacity, group, "memory.max", "memory.current");
    narrow(capacity, group, "memory.high", "memory.current");
    narrow(capacity, group, "memory.limit_in_bytes", "memory.usage_in_bytes");
  }
  return capacity;
}

}  // namespace parbuckle
