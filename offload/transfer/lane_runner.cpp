#include "offload/transfer/lane_runner.h"

#include <string>
#include <system_error>
#include <utility>

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
    for (std::int32_t i = 0; i < lane_depth(lane->kind_); ++i) {
      lane->threads_.emplace_back([raw = lane.get()] { raw->work(); });
    }
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
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void LaneRunner::start(std::span<const LaneItem> items, Progress& progress, TransferWatch& watch) {
  const std::lock_guard lock(mutex_);
  items_ = items;
  progress_ = &progress;
  watch_ = &watch;
  next_ = 0;
  ended_ = 0;
  failed_ = false;
  ++step_;
  working_ = threads_.size();
  changed_.notify_all();
}

void LaneRunner::finish() {
  std::unique_lock lock(mutex_);
  ended_changed_.wait(lock, [this] { return working_ == 0; });
}

void LaneRunner::work() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return step_ != seen || stopping_; });
    if (step_ == seen) {
      return;
    }
    seen = step_;
    lock.unlock();
    while (serve_next()) {
    }
    lock.lock();
    if (--working_ == 0) {
      ended_changed_.notify_all();
    }
  }
}

/// False when no item is left for this thread, or the step has failed.
bool LaneRunner::serve_next() {
  const LaneItem* const item = begin_next();
  if (item == nullptr) {
    return false;
  }
  return end(static_cast<std::size_t>(item - items_.data()), move(*item));
}

const LaneItem* LaneRunner::begin_next() {
  const std::lock_guard turn(begin_mutex_);
  if (next_ == items_.size()) {
    return nullptr;
  }
  const LaneItem& item = items_[next_];
  if (!progress_->await({item.after_task, item.after_host_task}, item.after_transfers)) {
    return nullptr;
  }
  if (Status status = watch_->transfer_begins(item.transfer, item.skipped); !status.ok()) {
    progress_->fail(std::move(status));
    return nullptr;
  }
  ++next_;
  return &item;
}

bool LaneRunner::end(std::size_t position, Result<std::int64_t> moved) {
  const LaneItem& item = items_[position];
  std::unique_lock lock(mutex_);
  ended_changed_.wait(lock, [&] { return ended_ == position || failed_; });
  if (failed_) {
    return false;
  }
  Status status = moved.status();
  if (status.ok()) {
    bytes_[static_cast<std::size_t>(item.role)] += *moved;
    status = watch_->transfer_ends(item.transfer, item.skipped);
  }
  if (status.ok()) {
    progress_->transfer_ended(item.transfer);
    ++ended_;
  } else {
    progress_->fail(std::move(status));
    failed_ = true;
  }
  ended_changed_.notify_all();
  return !failed_;
}

bool LaneRunner::run(const LaneItem& item, Progress& progress, TransferWatch& watch) {
  items_ = {&item, 1};
  progress_ = &progress;
  watch_ = &watch;
  next_ = 0;
  ended_ = 0;
  failed_ = false;
  return serve_next();
}

Result<std::int64_t> LaneRunner::move(const LaneItem& item) {
  const auto size = static_cast<std::size_t>(item.bytes);
  if (item.skipped) {
    return std::int64_t{0};
  }
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
    case LaneKind::host_compute:
      return internal_error("the compute lane moves nothing");
  }
  return item.bytes;
}

}  // namespace parbuckle
