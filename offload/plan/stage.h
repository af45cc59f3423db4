// Third pass, only beside a device with memory of its own: what host memory holds while visits of device memory come and go.
//
// What a visit fetches comes from a home in host memory, or through a staging range that the drive fills; what it drains goes the
// same ways back. Activations and gradients that wait in the host hold a range there from their first drain to their last fetch.
// What the host writes and reads itself around a step (batches, scalars, statistics) has a mirror there. Tasks of the host's
// lane work on all of these where they are; what they need from the drive has visits of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/plan.h"
#include "engine/base/workload.h"
#include "offload/plan/schedule.h"

namespace parbuckle {

/// The host's side of one fetch or drain.
struct HostRange {
  std::int32_t visit =
      -1;  // in Staging::host; one with fetches or drains of its own is staging, others are where bytes live
  std::int64_t offset = 0;  // bytes into the visit's memory
};

struct Staging {
  Schedule host;  // operands and scratch: of the host lane's tasks
  std::vector<std::int32_t>
      own;  // host visits that the drive fills for the host's lane, or empties
  std::vector<std::vector<HostRange>> fetch;  // per visit of device memory, like its fetches
  std::vector<std::vector<HostRange>> drain;  // like its drains
};

/// `device` was made for this chain and choice.
Staging stage(const Workload& workload,
              const Choice& choice,
              const std::vector<ChainTask>& chain,
              const UseTable& uses,
              const Schedule& device);

}  // namespace parbuckle
