#include "kernels/runtime/cpu/cpu_stream.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

namespace parbuckle {

bool CpuEvent::query() const {
  const std::lock_guard lock(mutex_);
  return passed_ >= issued_;
}

Status CpuEvent::synchronise() {
  await(issued());
  return {};
}

std::uint64_t CpuEvent::issue() {
  const std::lock_guard lock(mutex_);
  return ++issued_;
}

std::uint64_t CpuEvent::issued() const {
  const std::lock_guard lock(mutex_);
  return issued_;
}

void CpuEvent::pass(std::uint64_t number) {
  // Notified under the lock: whoever waits may destroy the event as soon as it can take the lock.
  const std::lock_guard lock(mutex_);
  passed_ = std::max(passed_, number);
  changed_.notify_all();
}

void CpuEvent::await(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return passed_ >= number; });
}

Result<std::unique_ptr<Stream>> CpuStream::create(std::unique_ptr<StreamPace> pace) {
  std::unique_ptr<CpuStream> stream(new CpuStream());  // private constructor
  stream->pace_ = std::move(pace);
  try {
    stream->thread_ = std::thread([raw = stream.get()] { raw->work(); });
  } catch (const std::system_error& error) {
    return exhausted(std::string("cpu stream: no thread: ") + error.what());
  }
  return std::unique_ptr<Stream>(std::move(stream));
}

CpuStream::~CpuStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

Status CpuStream::enqueue(HostFunction function, void* context) {
  return push({.kind = Kind::call, .function = function, .target = context});
}

Status CpuStream::copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction) {
  return push(
      {.kind = Kind::copy, .target = to, .source = from, .bytes = bytes, .direction = direction});
}

Status CpuStream::record(Event& event) {
  auto& cpu_event = static_cast<CpuEvent&>(event);
  return push({.kind = Kind::record, .event = &cpu_event, .number = cpu_event.issue()});
}

Status CpuStream::wait(Event& event) {
  auto& cpu_event = static_cast<CpuEvent&>(event);
  return push({.kind = Kind::wait, .event = &cpu_event, .number = cpu_event.issued()});
}

Status CpuStream::synchronise() {
  std::unique_lock lock(mutex_);
  const std::uint64_t target = pushed_;
  changed_.wait(lock, [&] { return done_ >= target; });
  return {};
}

Status CpuStream::push(const Item& item) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return pushed_ - done_ < capacity; });
  items_[pushed_ % capacity] = item;
  ++pushed_;
  changed_.notify_all();
  return {};
}

void CpuStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return done_ < pushed_ || stopping_; });
    if (done_ == pushed_) {
      return;
    }
    const Item item = items_[done_ % capacity];
    lock.unlock();
    perform(item);
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

void CpuStream::perform(const Item& item) {
  switch (item.kind) {
    case Kind::call:
      pace_ ? pace_->call(item.function, item.target) : item.function(item.target);
      break;
    case Kind::copy:
      if (pace_) {
        pace_->copy(item.target, item.source, item.bytes, item.direction);
      } else {
        std::memcpy(item.target, item.source, static_cast<std::size_t>(item.bytes));
      }
      break;
    case Kind::record:
      item.event->pass(item.number);
      break;
    case Kind::wait:
      item.event->await(item.number);
      break;
  }
}

}  // namespace parbuckle
