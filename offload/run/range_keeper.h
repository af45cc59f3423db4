// What each range of the arena holds while a step runs: drives the residency table and the ledger, gives a range back
// when its last user has ended, and in the debug mode poisons what was given back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/plan.h"
#include "engine/base/workload.h"
#include "offload/run/arenas.h"
#include "offload/run/step_table.h"
#include "offload/tier/ledger.h"
#include "offload/tier/residency.h"

namespace parbuckle {

/// Of an arena.
struct ByteRange {
  Tier tier = Tier::host;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Called by the compute streams and the lanes at once. Allocates nothing in a step.
/// Whoever ends last frees the range before its end is announced, so that a successor that waits for it is safe, and one
/// that does not reads poison.
class RangeKeeper {
 public:
  /// Plan, workload and table must outlive the keeper. Resident ranges are live from now on. Only memory that the host can
  /// address is poisoned: `poisoned` names the arenas where that is wanted.
  static Result<std::unique_ptr<RangeKeeper>> create(const Plan& plan,
                                                     const Workload& workload,
                                                     const StepTable& table,
                                                     const ArenaAddresses& poisoned = {});

  void begin_step();
  Status task_begins(std::size_t task);
  Status task_ends(std::size_t task);
  Status transfer_begins(std::size_t transfer);
  Status transfer_ends(std::size_t transfer);
  /// Instead of begins and ends, for what this step leaves out.
  Status task_skipped(std::size_t task);
  Status transfer_skipped(std::size_t transfer);
  /// After a whole step: every range that is not resident must have been given back.
  [[nodiscard]] Status end_step() const;

  /// End of the highest range that any event of this step used, in whole pages as plans count.
  [[nodiscard]] std::int64_t peak_bytes(Tier tier) const { return peak_of(tier); }
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }

 private:
  RangeKeeper(const Plan& plan,
              const Workload& workload,
              const StepTable& table,
              const ArenaAddresses& poisoned);
  Status hold(AllocationId id);
  Status reserve_cell(std::size_t cell);
  Status used(AllocationId id);
  Status release(AllocationId id);
  Status drain_begins(std::size_t cell);
  Status fill_begins(std::size_t cell);
  Status refill_begins(std::size_t cell);
  void poison(Tier tier, std::int64_t offset, std::int64_t bytes);
  void note_peak(Tier tier, std::int64_t end);
  [[nodiscard]] const std::atomic<std::int64_t>& peak_of(Tier tier) const {
    return tier == Tier::device ? device_peak_ : host_peak_;
  }

  const Plan& plan_;
  const StepTable& table_;
  ArenaAddresses poisoned_;
  std::vector<ByteRange> free_at_begin_;  // poisoned then
  Residency residency_;
  Ledger ledger_;
  std::vector<Reservation> held_;  // per allocation
  std::mutex held_mutex_;
  std::vector<std::atomic<std::int32_t>> users_left_;  // per allocation
  std::atomic<std::int64_t> host_peak_{0};
  std::atomic<std::int64_t> device_peak_{0};
};

}  // namespace parbuckle
