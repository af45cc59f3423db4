// The `cpu` device with a stream that stops taking work when a test tells it to.
#pragma once

#include <memory>
#include <utility>

#include "kernels/runtime/cpu/cpu_device.h"

namespace parbuckle {

/// What its streams answer instead of working, from the given call on.
struct StreamFault {
  int enqueues_left = -1;  // -1: never fails
  bool at_end = false;     // recording and synchronising fail
  Status status = io_error("the device is gone");
};

class FaultyStream final : public Stream {
 public:
  FaultyStream(std::unique_ptr<Stream> inner, StreamFault& fault)
      : inner_(std::move(inner)), fault_(fault) {}

  Status enqueue(HostFunction function, void* context) override {
    if (fault_.enqueues_left == 0) {
      return fault_.status;
    }
    fault_.enqueues_left -= fault_.enqueues_left > 0 ? 1 : 0;
    return inner_->enqueue(function, context);
  }
  Status copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction) override {
    return inner_->copy(to, from, bytes, direction);
  }
  Status record(Event& event) override {
    const Status done = inner_->synchronise();  // as a device that is gone: nothing runs any more
    return fault_.at_end ? fault_.status : done.ok() ? inner_->record(event) : done;
  }
  Status wait(Event& event) override { return inner_->wait(event); }
  Status synchronise() override {
    const Status done = inner_->synchronise();
    return fault_.at_end ? fault_.status : done;
  }

 private:
  std::unique_ptr<Stream> inner_;
  StreamFault& fault_;
};

class FaultyDevice final : public Device {
 public:
  explicit FaultyDevice(bool shares_host_memory = true)
      : shares_(shares_host_memory), inner_(CpuDevice::create().value()) {}

  [[nodiscard]] std::string_view name() const override { return "faulty"; }
  [[nodiscard]] bool shares_host_memory() const override { return shares_; }
  Result<std::unique_ptr<Stream>> create_stream() override {
    PARBUCKLE_ASSIGN(std::unique_ptr<Stream> stream, inner_->create_stream());
    return std::unique_ptr<Stream>(std::make_unique<FaultyStream>(std::move(stream), fault));
  }
  Result<std::unique_ptr<Event>> create_event() override { return inner_->create_event(); }
  Result<std::unique_ptr<DeviceMemory>> create_memory(std::int64_t bytes) override {
    return inner_->create_memory(bytes);
  }

  StreamFault fault;

 private:
  bool shares_;
  std::unique_ptr<Device> inner_;
};

}  // namespace parbuckle
