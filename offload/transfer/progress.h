// What of a step has ended: the one thing that tasks and lanes wait on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/ids.h"

namespace parbuckle {

/// Tasks end in their order; transfers in any. The first failure ends the step: every wait then returns false.
/// Allocates nothing after construction.
class Progress {
 public:
  explicit Progress(std::size_t transfers) : transfer_ended_(transfers, 0) {}

  /// REQUIRES: nobody waits.
  void begin_step();
  void task_ended();
  void transfer_ended(TransferId transfer);
  void fail(Status status);

  /// Blocks until task `after_task` (-1: none) and all of `after_transfers` have ended. False: the step failed.
  bool await(std::int32_t after_task, std::span<const TransferId> after_transfers);
  /// The first failure of this step.
  [[nodiscard]] Status status() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::int32_t tasks_ended_ = 0;
  std::vector<std::uint8_t> transfer_ended_;
  Status status_;
};

}  // namespace parbuckle
