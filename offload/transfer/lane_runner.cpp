#include "offload/transfer/lane_runner.h"

#include <string>
#include <system_error>

#include "engine/base/check.h"

namespace parbuckle {

Result<std::unique_ptr<LaneRunner>> LaneRunner::create(LaneKind kind, Pool& pool) {
  PARBUCKLE_CHECK(kind == LaneKind::nvme_read || kind == LaneKind::nvme_write,
                  "this lane does not lead to a drive");
  std::unique_ptr<LaneRunner> lane(new LaneRunner(kind, pool));  // private constructor
  try {
    lane->thread_ = std::thread([raw = lane.get()] { raw->work(); });
  } catch (const std::system_error& error) {
    return exhausted(std::string("lane ") + std::string(to_string(kind)) +
                     ": no thread: " + error.what());
  }
  return lane;
}

LaneRunner::~LaneRunner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void LaneRunner::start(std::span<const LaneItem> items, Progress& progress, TransferWatch& watch) {
  const std::lock_guard lock(mutex_);
  items_ = items;
  progress_ = &progress;
  watch_ = &watch;
  busy_ = true;
  changed_.notify_all();
}

void LaneRunner::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void LaneRunner::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || stopping_; });
    if (!busy_) {
      return;
    }
    const std::span<const LaneItem> items = items_;
    Progress& progress = *progress_;
    TransferWatch& watch = *watch_;
    lock.unlock();
    for (const LaneItem& item : items) {
      if (!progress.await(item.after_task, item.after_transfers) || !run(item, progress, watch)) {
        break;
      }
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

bool LaneRunner::run(const LaneItem& item, Progress& progress, TransferWatch& watch) {
  Status status = watch.transfer_begins(item.transfer, item.skipped);
  if (status.ok() && !item.skipped) {
    status = move(item);
  }
  if (status.ok()) {
    status = watch.transfer_ends(item.transfer, item.skipped);
  }
  if (!status.ok()) {
    progress.fail(std::move(status));
    return false;
  }
  progress.transfer_ended(item.transfer);
  return true;
}

Status LaneRunner::move(const LaneItem& item) {
  std::int64_t& counter = bytes_[static_cast<std::size_t>(item.role)];
  const auto size = static_cast<std::size_t>(item.bytes);
  if (kind_ == LaneKind::nvme_read) {
    PARBUCKLE_ASSIGN(const std::int64_t moved,
                     pool_.read(item.extent, 0, {item.data, size}, item.allow_unwritten));
    counter += moved;
    return {};
  }
  PARBUCKLE_TRY(pool_.write(item.extent, 0, {item.data, size}));
  counter += item.bytes;
  return {};
}

}  // namespace parbuckle
