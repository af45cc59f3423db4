// How many threads this process may use, and whether OpenMP waits without spinning.
#pragma once

#include <optional>
#include <string>

#include "engine/base/control_groups.h"

namespace parbuckle::cpu {

/// What each authority allows; nullopt where it sets no limit.
struct ThreadLimits {
  int affinity = 1;          // cores of the affinity mask, which the kernel keeps inside the cpuset
  std::optional<int> quota;  // control group, v1 or v2: cores rounded up
  std::optional<int> omp_num_threads;  // first number of OMP_NUM_THREADS
};

/// The least of the limits, at least 1.
int thread_count(const ThreadLimits& limits);

/// Limits of the calling process.
ThreadLimits thread_limits();

/// The tightest quota from the process's own control group up to the root, in cores rounded up.
std::optional<int> quota_cores(const ControlGroupFiles& files = {});

/// First number of a value of OMP_NUM_THREADS ("4", "4,2"); nullopt if there is none above 0.
std::optional<int> parse_omp_num_threads(const std::string& value);

/// OMP_WAIT_POLICY=passive was in the environment. libgomp reads it once, when it is loaded.
bool waits_passively();

}  // namespace parbuckle::cpu
