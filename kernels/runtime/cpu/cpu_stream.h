// Streams and events of the `cpu` device, on std::thread and condition variables alone.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "kernels/runtime/device.h"

namespace parbuckle {

/// Counts records: `issued` when a stream is told to record, `passed` when it gets there.
class CpuEvent final : public Event {
 public:
  [[nodiscard]] bool query() const override;
  Status synchronise() override;

  /// The number that the next pass of this record will reach.
  std::uint64_t issue();
  [[nodiscard]] std::uint64_t issued() const;
  void pass(std::uint64_t number);
  void await(std::uint64_t number);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t issued_ = 0;
  std::uint64_t passed_ = 0;
};

/// How a stream does its work where that is not simply calling and copying: an emulated device is slower.
class StreamPace {
 public:
  StreamPace(const StreamPace&) = delete;
  StreamPace& operator=(const StreamPace&) = delete;
  StreamPace(StreamPace&&) = delete;
  StreamPace& operator=(StreamPace&&) = delete;
  virtual ~StreamPace() = default;
  virtual void call(HostFunction function, void* context) = 0;
  virtual void copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction) = 0;

 protected:
  StreamPace() = default;
};

class CpuStream final : public Stream {
 public:
  /// `pace` null: at the host's own.
  static Result<std::unique_ptr<Stream>> create(std::unique_ptr<StreamPace> pace = nullptr);
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;
  CpuStream(CpuStream&&) = delete;
  CpuStream& operator=(CpuStream&&) = delete;
  ~CpuStream() override;

  Status enqueue(HostFunction function, void* context) override;
  Status copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction) override;
  Status record(Event& event) override;
  Status wait(Event& event) override;
  Status synchronise() override;

 private:
  enum class Kind { call, copy, record, wait };
  struct Item {
    Kind kind = Kind::call;
    HostFunction function = nullptr;
    void* target = nullptr;  // context, destination
    const void* source = nullptr;
    std::int64_t bytes = 0;
    CopyDirection direction = CopyDirection::within_device;
    CpuEvent* event = nullptr;
    std::uint64_t number = 0;  // of the event
  };
  static constexpr std::uint64_t capacity = 256;

  CpuStream() = default;
  Status push(const Item& item);
  void work();
  void perform(const Item& item);

  std::unique_ptr<StreamPace> pace_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Item, capacity> items_{};  // ring; item n stands at n % capacity
  std::uint64_t pushed_ = 0;
  std::uint64_t done_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace parbuckle
