// What every device must do, whatever it is made of.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "kernels/runtime/cpu/cpu_device.h"
#include "kernels/runtime/cuda/cuda_device.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/emulated/emulated_device.h"

namespace parbuckle {
namespace {

using namespace std::chrono_literals;

/// CUDA_UNDER_TEST names it: `cuda_host` where tests/support/cuda_host stands in, `cuda` on a machine with a GPU.
Result<std::unique_ptr<Device>> create_cuda() {
  return CudaDevice::create(0);
}

struct DeviceFactory {
  std::string name;
  Result<std::unique_ptr<Device>> (*create)();
};

class DeviceConformance : public testing::TestWithParam<DeviceFactory> {
 protected:
  void SetUp() override {
    auto device = GetParam().create();
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = std::move(device).value();
    stream_ = stream();
  }
  std::unique_ptr<Stream> stream() {
    auto made = device_->create_stream();
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
  }
  std::unique_ptr<Event> event() {
    auto made = device_->create_event();
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

struct Gate {
  std::atomic<bool> open{false};
  static void pass(void* context) {
    while (!static_cast<Gate*>(context)->open) {
      std::this_thread::sleep_for(100us);
    }
  }
};

struct Note {
  std::vector<int>* log;
  int value;
  static void write(void* context) {
    auto* note = static_cast<Note*>(context);
    note->log->push_back(note->value);
  }
};

TEST_P(DeviceConformance, RunsWorkInOrderBeyondItsQueue) {
  std::vector<int> log;
  std::vector<Note> notes;
  for (int i = 0; i < 2000; ++i) {
    notes.push_back({&log, i});
  }
  for (Note& note : notes) {
    ASSERT_TRUE(stream_->enqueue(&Note::write, &note).ok());
  }
  ASSERT_TRUE(stream_->synchronise().ok());
  ASSERT_EQ(log.size(), notes.size());
  for (std::size_t i = 0; i < log.size(); ++i) {
    EXPECT_EQ(log[i], static_cast<int>(i));
  }
}

TEST_P(DeviceConformance, AStreamKeepsItsThread) {
  if (GetParam().name == "cuda") {
    GTEST_SKIP() << "CUDA's driver chooses the thread of a host function";
  }
  std::vector<std::thread::id> seen(8);
  for (auto& id : seen) {
    ASSERT_TRUE(
        stream_
            ->enqueue(
                [](void* to) { *static_cast<std::thread::id*>(to) = std::this_thread::get_id(); },
                &id)
            .ok());
  }
  ASSERT_TRUE(stream_->synchronise().ok());
  for (const auto& id : seen) {
    EXPECT_EQ(id, seen.front());
    EXPECT_NE(id, std::this_thread::get_id());
  }
}

TEST_P(DeviceConformance, CopiesBothWays) {
  const std::int64_t bytes = 3 * 4096;
  auto memory = device_->create_memory(bytes);
  ASSERT_TRUE(memory.ok());
  std::vector<unsigned char> out(static_cast<std::size_t>(bytes));
  std::vector<unsigned char> back(out.size(), 0xAA);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*memory)->data()) % 4096, 0U);
  EXPECT_EQ((*memory)->bytes(), bytes);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<unsigned char>(i * 7 + 1);
  }
  std::byte* const device_data = (*memory)->data();
  ASSERT_TRUE(stream_->copy(back.data(), device_data, bytes, CopyDirection::to_host).ok());
  ASSERT_TRUE(stream_->synchronise().ok());
  EXPECT_EQ(back, std::vector<unsigned char>(out.size(), 0)) << "new memory must be zeros";
  ASSERT_TRUE(stream_->copy(device_data, out.data(), bytes, CopyDirection::to_device).ok());
  ASSERT_TRUE(
      stream_->copy(device_data, device_data + 4096, 4096, CopyDirection::within_device).ok());
  ASSERT_TRUE(stream_->copy(back.data(), device_data, bytes, CopyDirection::to_host).ok());
  ASSERT_TRUE(stream_->synchronise().ok());
  EXPECT_EQ(std::memcmp(back.data(), out.data() + 4096, 4096), 0);
  EXPECT_EQ(std::memcmp(back.data() + 4096, out.data() + 4096, 8192), 0);
}

TEST_P(DeviceConformance, AnEventNeverRecordedIsPast) {
  auto fresh = event();
  EXPECT_TRUE(fresh->query());
  EXPECT_TRUE(fresh->synchronise().ok());
  EXPECT_TRUE(stream_->wait(*fresh).ok());
  EXPECT_TRUE(stream_->synchronise().ok());
}

TEST_P(DeviceConformance, AnEventPassesWhenTheWorkBeforeItHasRun) {
  Gate gate;
  auto point = event();
  ASSERT_TRUE(stream_->enqueue(&Gate::pass, &gate).ok());
  ASSERT_TRUE(stream_->record(*point).ok());
  EXPECT_FALSE(point->query());
  gate.open = true;
  ASSERT_TRUE(point->synchronise().ok());
  EXPECT_TRUE(point->query());
}

TEST_P(DeviceConformance, AStreamWaitsForAnotherStreamsEvent) {
  auto other = stream();
  auto point = event();
  Gate gate;
  std::vector<int> log;
  Note first{&log, 1};
  Note second{&log, 2};
  ASSERT_TRUE(stream_->enqueue(&Gate::pass, &gate).ok());
  ASSERT_TRUE(stream_->enqueue(&Note::write, &first).ok());
  ASSERT_TRUE(stream_->record(*point).ok());
  ASSERT_TRUE(other->wait(*point).ok());
  ASSERT_TRUE(other->enqueue(&Note::write, &second).ok());
  std::this_thread::sleep_for(5ms);
  gate.open = true;
  ASSERT_TRUE(other->synchronise().ok());
  EXPECT_EQ(log, (std::vector<int>{1, 2}));
}

TEST_P(DeviceConformance, AWaitRefersToTheRecordBeforeIt) {
  auto other = stream();
  auto point = event();
  Gate gate;
  ASSERT_TRUE(stream_->record(*point).ok());
  ASSERT_TRUE(other->wait(*point).ok());
  ASSERT_TRUE(stream_->enqueue(&Gate::pass, &gate).ok());
  ASSERT_TRUE(stream_->record(*point).ok());
  EXPECT_TRUE(other->synchronise().ok());  // would hang if the second record counted
  EXPECT_FALSE(point->query());
  gate.open = true;
  EXPECT_TRUE(stream_->synchronise().ok());
}

TEST_P(DeviceConformance, DestroyingAStreamRunsWhatWasEnqueued) {
  std::vector<int> log;
  Note note{&log, 7};
  auto short_lived = stream();
  ASSERT_TRUE(short_lived->enqueue(&Note::write, &note).ok());
  short_lived.reset();
  EXPECT_EQ(log, std::vector<int>{7});
}

TEST_P(DeviceConformance, RefusesImpossibleMemory) {
  EXPECT_EQ(device_->create_memory(0).status().code(), Code::invalid_argument);
  const auto huge = device_->create_memory(std::int64_t{1} << 60);
  EXPECT_EQ(huge.status().code(), Code::resource_exhausted);
}

Result<std::unique_ptr<Device>> create_emulated() {
  return EmulatedDevice::create(
      {.memory_bytes = 64 * mib, .link_bytes_per_s = 1'000'000'000, .speed = 0.5});
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         DeviceConformance,
                         testing::Values(DeviceFactory{"cpu", &CpuDevice::create},
                                         DeviceFactory{CUDA_UNDER_TEST, &create_cuda},
                                         DeviceFactory{"emulated", &create_emulated}),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace parbuckle
