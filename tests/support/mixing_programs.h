// Programs for generated workloads whose every result depends on every byte they read: one stale, early or overwritten byte anywhere
// changes all that follows. Nothing is learned, everything is checked.
#pragma once

#include <functional>
#include <vector>

#include "engine/base/op.h"
#include "engine/base/program.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// One program per (family, shape): digests what the task reads and all of its scratch, then writes a pattern of the digest over what
/// it writes and adds one to what it updates. Gives every family room for the digest.
/// REQUIRES: every family belongs to one task template, and every block is a multiple of 4 bytes long.
std::vector<Program> make_mixing_programs(Workload& workload);

/// The device that runs them.
struct MixingDevice {
  /// Asked before every op, on the compute stream; an error is the op's answer. May sleep.
  std::function<Status()> before_op;

  [[nodiscard]] OpTable table();
};

/// Runs one op of a mixing program.
Status run_mixing_op(const OpShape& op, const OpArgs& args);

}  // namespace parbuckle
