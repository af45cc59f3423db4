#include "offload/transfer/progress.h"

#include <algorithm>
#include <utility>

namespace parbuckle {

void Progress::begin_step() {
  const std::lock_guard lock(mutex_);
  tasks_ended_ = 0;
  std::fill(transfer_ended_.begin(), transfer_ended_.end(), std::uint8_t{0});
  status_ = Status();
}

void Progress::task_ended() {
  const std::lock_guard lock(mutex_);
  ++tasks_ended_;
  changed_.notify_all();
}

void Progress::transfer_ended(TransferId transfer) {
  const std::lock_guard lock(mutex_);
  transfer_ended_[transfer.index()] = 1;
  changed_.notify_all();
}

void Progress::fail(Status status) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) {
    status_ = std::move(status);
  }
  changed_.notify_all();
}

bool Progress::await(std::int32_t after_task, std::span<const TransferId> after_transfers) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return !status_.ok() ||
           (tasks_ended_ > after_task &&
            std::all_of(after_transfers.begin(), after_transfers.end(), [this](TransferId id) {
              return transfer_ended_[id.index()] != 0;
            }));
  });
  return status_.ok();
}

Status Progress::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace parbuckle
