#include "kernels/runtime/emulated/emulated_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "parbuckle/units.h"

#include "kernels/runtime/cpu/cpu_device.h"
#include "kernels/runtime/cpu/cpu_stream.h"
#include "kernels/runtime/emulated/link_pacer.h"

namespace parbuckle {

/// The way between host and device: one pacer for each direction, or one for both.
class EmulatedLink {
 public:
  explicit EmulatedLink(const EmulatedOptions& options)
      : latency_s_(options.latency_s),
        shared_(options.duplex == LinkDuplex::shared),
        down_(static_cast<double>(options.link_bytes_per_s)),
        up_(static_cast<double>(options.link_bytes_per_s)) {}

  /// Copies piece by piece, each no sooner than the link has brought it: two streams that copy at once share the link.
  void copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction) {
    constexpr std::int64_t piece_bytes = mib;
    LinkPacer& pacer = shared_ || direction == CopyDirection::to_device ? down_ : up_;
    for (std::int64_t done = 0; done < bytes; done += piece_bytes) {
      const std::int64_t piece = std::min(piece_bytes, bytes - done);
      const auto arrives = pacer.take(piece, done == 0 ? latency_s_ : 0);
      std::memcpy(static_cast<std::byte*>(to) + done,
                  static_cast<const std::byte*>(from) + done,
                  static_cast<std::size_t>(piece));
      std::this_thread::sleep_until(arrives);
    }
  }

 private:
  double latency_s_;
  bool shared_;
  LinkPacer down_;  // host to device, or everything
  LinkPacer up_;
};

/// Bytes of the device that are taken; memory given back late returns them here.
class DeviceCapacity {
 public:
  explicit DeviceCapacity(std::int64_t bytes) : bytes_(bytes) {}

  Status take(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > bytes_ - taken_) {
      return exhausted("emulated device: " + format_size(bytes) + " asked, " +
                       format_size(bytes_ - taken_) + " of " + format_size(bytes_) + " are free");
    }
    taken_ += bytes;
    return Status();
  }
  void give_back(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    taken_ -= bytes;
  }

 private:
  std::mutex mutex_;
  const std::int64_t bytes_;
  std::int64_t taken_ = 0;
};

namespace {

/// How an emulated stream differs from the host's: slower functions, copies over the link.
class EmulatedPace final : public StreamPace {
 public:
  EmulatedPace(std::shared_ptr<EmulatedLink> link, double speed)
      : link_(std::move(link)), speed_(speed) {}

  void call(HostFunction function, void* context) override {
    const auto begin = LinkPacer::Clock::now();
    function(context);
    if (speed_ < 1) {
      std::this_thread::sleep_until(
          begin + std::chrono::duration_cast<LinkPacer::Clock::duration>(
                      std::chrono::duration<double>(LinkPacer::Clock::now() - begin) / speed_));
    }
  }

  void copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction) override {
    if (direction == CopyDirection::within_device) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
      return;
    }
    link_->copy(to, from, bytes, direction);
  }

 private:
  std::shared_ptr<EmulatedLink> link_;
  double speed_;
};

class EmulatedMemory final : public DeviceMemory {
 public:
  EmulatedMemory(std::unique_ptr<DeviceMemory> memory, std::shared_ptr<DeviceCapacity> capacity)
      : memory_(std::move(memory)), capacity_(std::move(capacity)) {}
  EmulatedMemory(const EmulatedMemory&) = delete;
  EmulatedMemory& operator=(const EmulatedMemory&) = delete;
  EmulatedMemory(EmulatedMemory&&) = delete;
  EmulatedMemory& operator=(EmulatedMemory&&) = delete;
  ~EmulatedMemory() override { capacity_->give_back(memory_->bytes()); }

  [[nodiscard]] std::byte* data() const override { return memory_->data(); }
  [[nodiscard]] std::int64_t bytes() const override { return memory_->bytes(); }

 private:
  std::unique_ptr<DeviceMemory> memory_;
  std::shared_ptr<DeviceCapacity> capacity_;
};

}  // namespace

EmulatedDevice::EmulatedDevice(const EmulatedOptions& options)
    : name_("emulated:" + to_string(options)),
      link_(std::make_shared<EmulatedLink>(options)),
      capacity_(std::make_shared<DeviceCapacity>(options.memory_bytes)),
      speed_(options.speed) {
}

EmulatedDevice::~EmulatedDevice() = default;

Result<std::unique_ptr<Device>> EmulatedDevice::create(const EmulatedOptions& options) {
  return std::unique_ptr<Device>(new EmulatedDevice(options));  // private constructor
}

Result<std::unique_ptr<Stream>> EmulatedDevice::create_stream() {
  return CpuStream::create(std::make_unique<EmulatedPace>(link_, speed_));
}

Result<std::unique_ptr<Event>> EmulatedDevice::create_event() {
  return std::unique_ptr<Event>(std::make_unique<CpuEvent>());
}

Result<std::unique_ptr<DeviceMemory>> EmulatedDevice::create_memory(std::int64_t bytes) {
  if (bytes <= 0) {
    return invalid("emulated device: " + std::to_string(bytes) + " bytes asked, must be positive");
  }
  PARBUCKLE_TRY(capacity_->take(bytes));
  Result<std::unique_ptr<DeviceMemory>> memory = map_zeroed_memory(bytes);
  if (!memory.ok()) {
    capacity_->give_back(bytes);
    return memory.status();
  }
  return std::unique_ptr<DeviceMemory>(
      std::make_unique<EmulatedMemory>(std::move(memory).value(), capacity_));
}

}  // namespace parbuckle
