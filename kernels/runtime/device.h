// The device seam: the one place where compute devices differ. A device has memory, streams that run what is enqueued in
// order, and events that order streams among each other and with the host. Handles are move-only and made by create_*.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "parbuckle/status.h"

namespace parbuckle {

/// A host function that a stream runs; plain pointer and context, so that enqueueing allocates nothing.
using HostFunction = void (*)(void* context);

enum class CopyDirection { to_device, to_host, within_device };

/// A point in a stream. Each record() replaces the point that waits refer to. An event that was never recorded is past.
class Event {
 public:
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event(Event&&) = delete;
  Event& operator=(Event&&) = delete;
  virtual ~Event() = default;

  /// True when everything before the last record has run.
  [[nodiscard]] virtual bool query() const = 0;
  /// Blocks the calling thread until query() would be true.
  virtual Status synchronise() = 0;

 protected:
  Event() = default;
};

/// Runs what is enqueued in order. On the `cpu` device one stream is one thread, for its whole life: thread teams that
/// belong to the calling thread (OpenMP) are made once. Destroying a stream first runs what was enqueued.
/// Events and contexts must outlive the work that names them.
class Stream {
 public:
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream(Stream&&) = delete;
  Stream& operator=(Stream&&) = delete;
  virtual ~Stream() = default;

  /// Blocks while the stream's queue is full; the function must not enqueue on its own stream.
  virtual Status enqueue(HostFunction function, void* context) = 0;
  /// Source and destination may be reused once an event recorded after the copy is past.
  virtual Status copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction) = 0;
  virtual Status record(Event& event) = 0;
  /// Later work of this stream starts after the event's last record (at the time of this call) is past.
  virtual Status wait(Event& event) = 0;
  /// Blocks the calling thread until everything enqueued has run.
  virtual Status synchronise() = 0;

 protected:
  Stream() = default;
};

/// A range of device memory, page aligned, zeros at first; given back when destroyed.
class DeviceMemory {
 public:
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory(DeviceMemory&&) = delete;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  virtual ~DeviceMemory() = default;

  [[nodiscard]] virtual std::byte* data() const = 0;
  [[nodiscard]] virtual std::int64_t bytes() const = 0;

 protected:
  DeviceMemory() = default;
};

class Device {
 public:
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  Device(Device&&) = delete;
  Device& operator=(Device&&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Whether host addresses are device addresses: then the host arena is the compute memory.
  [[nodiscard]] virtual bool shares_host_memory() const = 0;
  /// Whether the host may touch device memory at its address, as debug modes do. Everything else copies through streams.
  [[nodiscard]] virtual bool host_addressable() const { return shares_host_memory(); }
  virtual Result<std::unique_ptr<Stream>> create_stream() = 0;
  virtual Result<std::unique_ptr<Event>> create_event() = 0;
  /// Fails with resource_exhausted where the device has not so many bytes.
  virtual Result<std::unique_ptr<DeviceMemory>> create_memory(std::int64_t bytes) = 0;

 protected:
  Device() = default;
};

}  // namespace parbuckle
