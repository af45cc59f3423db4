// The event simulator: when would each task and transfer of a plan run on this machine? It follows the order of events that
// engine/base/plan.h fixes for the executor, so a prediction and a measurement differ by rates only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// Seconds of one task of each family on each compute lane.
class FamilySeconds {
 public:
  FamilySeconds() = default;
  FamilySeconds(std::vector<double> device,
                std::vector<double> host = {})  // NOLINT: a list of seconds is one
      : device_(std::move(device)), host_(std::move(host)) {}
  /// REQUIRES: the hardware has that lane.
  [[nodiscard]] double of(FamilyId family, LaneKind lane) const {
    return (lane == LaneKind::host_compute ? host_ : device_)[family.index()];
  }
  [[nodiscard]] double operator[](std::size_t family) const { return device_[family]; }

 private:
  std::vector<double> device_;
  std::vector<double> host_;  // empty: the host does not compute beside a device
};

/// At the largest ShapeKey, or at Workload::shapes[shape]: measured (Hardware::program_times), else flops and bytes at the
/// device's rates. Fails where neither is known.
Result<FamilySeconds> family_seconds(const Workload& workload, const Hardware& hardware);
Result<FamilySeconds> family_seconds(const Workload& workload,
                                     const Hardware& hardware,
                                     std::size_t shape);

/// What one step of a plan asks of the machine.
struct StepLoad {
  std::vector<double> task_s;                // like Plan::tasks
  std::vector<std::int64_t> transfer_bytes;  // like Plan::transfers
};

/// What transfers and a task of the host's lane move through host memory at once shares its bandwidth: whoever asks for less
/// than an equal share gets it, the others share what is left. The task is taken to ask for all of it.
/// A lane moves `bytes_per_s` alone and `duplex_bytes_per_s` while another lane of its engine moves bytes too, for one transfer
/// after the other. Each waits `latency_s` after its start, which disturbs nobody and passes while those before it move.
/// Fails where the plan uses a lane that the hardware lacks or never finishes (transfers and tasks wait in a circle).
Result<Timeline> simulate(const Plan& plan, const StepLoad& load, const Hardware& hardware);

/// The step in which every micro-batch has the largest ShapeKey.
Result<Timeline> simulate(const Plan& plan,
                          const FamilySeconds& family_seconds,
                          const Hardware& hardware);

}  // namespace parbuckle
