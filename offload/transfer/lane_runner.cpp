#include "offload/transfer/lane_runner.h"

#include <string>
#include <system_error>

#include "engine/base/check.h"

namespace parbuckle {

Result<std::unique_ptr<LaneRunner>> LaneRunner::create(LaneKind kind, Pool& pool) {
  PARBUCKLE_CHECK(kind == LaneKind::nvme_read || kind == LaneKind::nvme_write,
                  "this lane does not lead to a drive");
  return started(std::unique_ptr<LaneRunner>(new LaneRunner(kind, &pool, nullptr)));
}

Result<std::unique_ptr<LaneRunner>> LaneRunner::create(LaneKind kind,
                                                       std::unique_ptr<Stream> stream) {
  PARBUCKLE_CHECK(kind == LaneKind::h2d || kind == LaneKind::d2h,
                  "this lane does not lead to a device");
  return started(std::unique_ptr<LaneRunner>(new LaneRunner(kind, nullptr, std::move(stream))));
}

Result<std::unique_ptr<LaneRunner>> LaneRunner::started(std::unique_ptr<LaneRunner> lane) {
  try {
    lane->thread_ = std::thread([raw = lane.get()] { raw->work(); });
  } catch (const std::system_error& error) {
    return exhausted(std::string("lane ") + std::string(to_string(lane->kind_)) +
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
    const Result<std::int64_t> moved = move(item);
    status = moved.status();
    bytes_[static_cast<std::size_t>(item.role)] += moved.ok() ? *moved : 0;
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

Result<std::int64_t> LaneRunner::move(const LaneItem& item) {
  const auto size = static_cast<std::size_t>(item.bytes);
  switch (kind_) {
    case LaneKind::nvme_read:
      return pool_->read(item.extent, 0, {item.data, size}, item.allow_unwritten);
    case LaneKind::nvme_write:
      PARBUCKLE_TRY(pool_->write(item.extent, 0, {item.data, size}));
      break;
    case LaneKind::h2d:
      PARBUCKLE_TRY(stream_->copy(item.data, item.host, item.bytes, CopyDirection::to_device));
      PARBUCKLE_TRY(stream_->synchronise());
      break;
    case LaneKind::d2h:
      PARBUCKLE_TRY(stream_->copy(item.host, item.data, item.bytes, CopyDirection::to_host));
      PARBUCKLE_TRY(stream_->synchronise());
      break;
    case LaneKind::compute:
      return internal_error("the compute lane moves nothing");
  }
  return item.bytes;
}

}  // namespace parbuckle
