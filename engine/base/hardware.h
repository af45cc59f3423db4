// A machine, measured or declared. Written by `parbuckle probe`, editable by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parbuckle/tier.h"

#include "engine/base/ids.h"
#include "engine/base/program.h"

namespace parbuckle {

struct TierCapacity {
  Tier tier = Tier::host;
  std::string name;             // "host", "nvme:/mnt/fast"
  std::int64_t bytes = 0;       // what is there
  std::int64_t free_bytes = 0;  // what may be taken now, limits of cgroups included
  std::string limited_by;       // "MemAvailable", "cgroup /user.slice memory.max", ...
  friend bool operator==(const TierCapacity&, const TierCapacity&) = default;
};

/// `compute` and `host_compute` are queues of tasks: those of the device, and those of the host beside a device with memory
/// of its own. All others move bytes.
enum class LaneKind { compute, h2d, d2h, nvme_read, nvme_write, host_compute };
inline constexpr std::size_t lane_kind_count = static_cast<std::size_t>(LaneKind::host_compute) + 1;
std::string_view to_string(LaneKind kind);
constexpr bool runs_tasks(LaneKind kind) {
  return kind == LaneKind::compute || kind == LaneKind::host_compute;
}

/// One direction of one link, or one compute queue.
struct Lane {
  std::string name;
  LaneKind kind = LaneKind::compute;
  double latency_s = 0;    // per transfer
  double bytes_per_s = 0;  // alone
  double duplex_bytes_per_s =
      0;                     // while the opposite direction is busy too (this direction's share)
  std::int32_t engine = -1;  // lanes with the same engine share it; -1: independent
  friend bool operator==(const Lane&, const Lane&) = default;
};

/// Seconds of one program, measured. Programs are found by device, name and key.
struct ProgramTime {
  std::string program;
  ShapeKey key;
  double seconds = 0;
  std::int32_t device = 0;  // position in Hardware::devices
  friend bool operator==(const ProgramTime&, const ProgramTime&) = default;
};

struct ComputeDevice {
  std::string name;  // "cpu"
  std::int32_t cores = 1;
  std::string instruction_set;
  double flops_per_s = 0;  // fp32 matrix products, for programs that were never timed
  double memory_bytes_per_s =
      0;  // copy rate, read + write; the host's: shared by its lane and all transfers
  friend bool operator==(const ComputeDevice&, const ComputeDevice&) = default;
};

struct Hardware {
  std::string name;
  std::string fingerprint;  // of the machine it was measured on; empty: declared by hand
  /// The first one runs the step. Where links lead to it, the second is the host beside it: cores of their own that work in
  /// host memory.
  std::vector<ComputeDevice> devices;
  std::vector<TierCapacity> tiers;
  std::vector<Lane> lanes;
  std::vector<ProgramTime> program_times;
  friend bool operator==(const Hardware&, const Hardware&) = default;
};

/// The host as a second compute device; null where nothing runs there beside a device.
const ComputeDevice* host_device(const Hardware& hardware);

/// Bytes per tier, and wear. -1: no limit of its own.
struct Budgets {
  std::int64_t device_bytes = -1;
  std::int64_t host_bytes = -1;         // the whole process
  std::int64_t host_reserve_bytes = 0;  // of which libraries, stacks, tokenizer: not for arenas
  std::int64_t nvme_bytes = -1;
  std::int64_t written_bytes_per_step = -1;
  friend bool operator==(const Budgets&, const Budgets&) = default;
};

}  // namespace parbuckle
