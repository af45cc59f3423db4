#include "cpu/parallel/threads.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <strings.h>

namespace parbuckle::cpu {
namespace {

namespace fs = std::filesystem;

std::optional<double> first_number(const fs::path& file) {
  std::ifstream in(file);
  double value = 0;
  if (in >> value) {
    return value;
  }
  return std::nullopt;
}

/// v2: cpu.max holds "quota period" or "max period"; v1: two files, quota -1 for none.
std::optional<double> quota_of(const fs::path& group) {
  std::ifstream in(group / "cpu.max");
  double quota = 0;
  double period = 0;
  if (in >> quota >> period && quota > 0 && period > 0) {
    return quota / period;
  }
  const auto v1_quota = first_number(group / "cpu.cfs_quota_us");
  const auto v1_period = first_number(group / "cpu.cfs_period_us");
  if (v1_quota && v1_period && *v1_quota > 0 && *v1_period > 0) {
    return *v1_quota / *v1_period;
  }
  return std::nullopt;
}

int affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return 1;
  }
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace

std::optional<int> quota_cores(const ControlGroupFiles& files) {
  std::optional<double> tightest;
  for (const fs::path& group : control_groups("cpu", files)) {
    if (const std::optional<double> quota = quota_of(group)) {
      tightest = std::min(tightest.value_or(*quota), *quota);
    }
  }
  if (!tightest) {
    return std::nullopt;
  }
  return std::max(1, static_cast<int>(std::ceil(*tightest)));
}

std::optional<int> parse_omp_num_threads(const std::string& value) {
  int number = 0;
  const auto begin = std::min(value.find_first_not_of(" \t"), value.size());
  const auto [end, error] =
      std::from_chars(value.data() + begin, value.data() + value.size(), number);
  if (error != std::errc() || number < 1) {
    return std::nullopt;
  }
  return number;
}

ThreadLimits thread_limits() {
  ThreadLimits limits;
  limits.affinity = affinity_cores();
  limits.quota = quota_cores();
  if (const char* const value = std::getenv("OMP_NUM_THREADS")) {
    limits.omp_num_threads = parse_omp_num_threads(value);
  }
  return limits;
}

int thread_count(const ThreadLimits& limits) {
  int count = limits.affinity;
  count = std::min(count, limits.quota.value_or(count));
  count = std::min(count, limits.omp_num_threads.value_or(count));
  return std::max(1, count);
}

bool waits_passively() {
  const char* const value = std::getenv("OMP_WAIT_POLICY");
  return value != nullptr && strcasecmp(value, "passive") == 0;
}

}  // namespace parbuckle::cpu
