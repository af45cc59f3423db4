#include "offload/transfer/progress.h"

#include <algorithm>
#include <utility>

namespace parbuckle {

void Progress::begin_step() {
  const std::lock_guard lock(mutex_);
  std::fill(task_ended_.begin(), task_ended_.end(), std::uint8_t{0});
  std::fill(transfer_ended_.begin(), transfer_ended_.end(), std::uint8_t{0});
  status_ = Status();
}

void Progress::task_ended(std::size_t task) {
  const std::lock_guard lock(mutex_);
  task_ended_[task] = 1;
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

bool Progress::await(const std::array<std::int32_t, 2>& after_tasks,
                     std::span<const TransferId> after_transfers) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return !status_.ok() ||
           (std::all_of(after_tasks.begin(),
                        after_tasks.end(),
                        [this](std::int32_t task) {
                          return task < 0 || task_ended_[static_cast<std::size_t>(task)] != 0;
                        }) &&
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
