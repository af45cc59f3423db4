// From a Choice to a scored Plan, with the work that choices share done once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/base/workload.h"
#include "offload/plan/order.h"
#include "offload/plan/place.h"
#include "offload/plan/schedule.h"
#include "offload/plan/simulate.h"

namespace parbuckle {

/// A chain and its uses; depends on group, window, alternatives, by_stage and host updates only.
struct Expanded {
  std::vector<ChainTask> chain;
  UseTable uses;
  [[nodiscard]] std::int32_t tasks() const { return static_cast<std::int32_t>(chain.size()); }
};

/// Bytes that a plan may use for its arenas. `host` counts only beside a device with memory of its own.
struct Capacity {
  std::int64_t compute = 0;
  std::int64_t host = 0;
};

/// Bytes of a plan that choices compete for.
std::int64_t moved_bytes(const Plan& plan);

class Evaluator {
 public:
  /// Both arguments must outlive the evaluator. Fails where the hardware cannot time the workload.
  static Result<Evaluator> make(const Workload& workload, const Hardware& hardware);

  const Expanded& expanded(const Choice& choice);

  /// Compute memory is a device's own: there is a link to it, and host memory is a tier below.
  [[nodiscard]] bool has_device() const { return has_lane(LaneKind::h2d); }

  /// The host beside such a device has cores of its own.
  [[nodiscard]] bool has_host_lane() const { return host_device(*hardware_) != nullptr; }

  /// Least arena of this choice in compute memory, fetching nothing ahead, or one of at most `enough` bytes.
  Result<std::int64_t> least_arena(const Choice& choice, std::int64_t enough = 0);

  /// Least host memory of this choice beside a device; 0 where the host computes.
  Result<std::int64_t> least_host(const Choice& choice);

  /// `choice` with spans pinned until `capacity - slack` bytes are used: gradients first, then by bytes of traffic saved per byte
  /// held. Never more than fits.
  Result<Choice> pinned(const Choice& choice, std::int64_t capacity, std::int64_t slack);

  /// `choice` with spans at home in host memory until `capacity - slack` bytes of it are used, those first that save most
  /// traffic to the drive per byte. REQUIRES: has_device().
  Result<Choice> hosted(const Choice& choice, std::int64_t capacity, std::int64_t slack);

  /// The hardware has a drive that bytes can be read from; without one only plans that leave it alone are possible.
  [[nodiscard]] bool has_drive() const { return has_lane(LaneKind::nvme_read); }

  /// The plan of a choice with its predicted times and bound; nothing where it does not fit in `capacity` or needs a drive
  /// that is not there.
  Result<std::optional<Plan>> plan_in(const Choice& choice, const Capacity& capacity);

  /// Traffic of a typical unit visit where nothing is pinned.
  Result<std::int64_t> visit_traffic(const Choice& choice);

  [[nodiscard]] const FamilySeconds& seconds() const { return seconds_; }
  /// Of the compute lane, or of the host's where that takes longer.
  [[nodiscard]] double compute_seconds(const Choice& choice);
  [[nodiscard]] int plans_made() const { return plans_made_; }

 private:
  using Key =
      std::tuple<std::int32_t, Window, bool, std::vector<std::int32_t>, std::vector<SpanId>>;

  Evaluator(const Workload& workload, const Hardware& hardware, FamilySeconds seconds)
      : workload_(&workload), hardware_(&hardware), seconds_(std::move(seconds)) {}

  [[nodiscard]] bool has_lane(LaneKind kind) const;

  const Workload* workload_;
  const Hardware* hardware_;
  FamilySeconds seconds_;
  std::map<Key, std::unique_ptr<const Expanded>> expanded_;
  int plans_made_ = 0;
};

}  // namespace parbuckle
