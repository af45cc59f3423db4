// What of a step has ended: the one thing that tasks and lanes wait on.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/ids.h"

namespace parbuckle {

/// Tasks and transfers end in any order. The first failure ends the step: every wait then returns false.
/// Allocates nothing after construction.
class Progress {
 public:
  Progress(std::size_t tasks, std::size_t transfers)
      : task_ended_(tasks, 0), transfer_ended_(transfers, 0) {}

  /// REQUIRES: nobody waits.
  void begin_step();
  void task_ended(std::size_t task);
  void transfer_ended(TransferId transfer);
  void fail(Status status);

  /// Blocks until all of `after_tasks` (-1: none) and of `after_transfers` have ended. False: the step failed.
  bool await(const std::array<std::int32_t, 2>& after_tasks,
             std::span<const TransferId> after_transfers);
  /// The first failure of this step.
  [[nodiscard]] Status status() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint8_t> task_ended_;
  std::vector<std::uint8_t> transfer_ended_;
  Status status_;
};

}  // namespace parbuckle
