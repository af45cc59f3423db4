// What an emulated device promises beyond the conformance of all devices: a hard limit and a slow link. Sleeping is a lower bound,
// so these tests time what must not be faster and never what must not be slower.
#include "kernels/runtime/emulated/emulated_device.h"

#include <chrono>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "kernels/runtime/emulated/link_pacer.h"

namespace parbuckle {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::unique_ptr<Device> device(const EmulatedOptions& options) {
  return EmulatedDevice::create(options).value();
}

TEST(EmulatedOptions, ReadsEveryKey) {
  const auto options =
      parse_emulated("memory=512MiB,link=1GB/s,latency=20us,duplex=shared,speed=0.25,cores=3");
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->memory_bytes, 512 * mib);
  EXPECT_EQ(options->link_bytes_per_s, 1'000'000'000);
  EXPECT_DOUBLE_EQ(options->latency_s, 20e-6);
  EXPECT_EQ(options->duplex, LinkDuplex::shared);
  EXPECT_EQ(options->speed, 0.25);
  EXPECT_EQ(options->cores, 3);
}

TEST(EmulatedOptions, WritesWhatItReads) {
  const EmulatedOptions options{.memory_bytes = 3 * mib,
                                .link_bytes_per_s = 123456789,
                                .latency_s = 0.5,
                                .duplex = LinkDuplex::shared,
                                .speed = 0.5,
                                .cores = 2};
  const auto again = parse_emulated(to_string(options));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, options);
}

TEST(EmulatedOptions, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "memory and link must be given"},
      {"memory=1GiB", "memory and link must be given"},
      {"memory=much,link=1GB/s", "memory='much'"},
      {"memory=1GiB,link=1GB", "link='1GB', expected a bandwidth"},
      {"memory=1GiB,link=1GB/s,speed=2", "speed='2', expected 0.001 to 1"},
      {"memory=1GiB,link=1GB/s,cores=1.5", "cores='1.5'"},
      {"memory=1GiB,link=1GB/s,latency=5", "latency='5'"},
      {"memory=1GiB,link=1GB/s,duplex=half", "duplex='half', expected full or shared"},
      {"memory=1GiB,link=1GB/s,colour=red", "unknown key 'colour'"},
      {"memory", "'memory', expected key=value"}};
  for (const auto& [text, message] : cases) {
    const auto options = parse_emulated(text);
    ASSERT_FALSE(options.ok()) << text;
    EXPECT_EQ(options.status().code(), Code::invalid_argument);
    EXPECT_NE(options.status().message().find(message), std::string::npos)
        << options.status().message();
  }
}

TEST(EmulatedDevice, GivesExactlyItsMemory) {
  auto made = device({.memory_bytes = 2 * mib, .link_bytes_per_s = 1'000'000'000});
  auto first = made->create_memory(mib);
  auto second = made->create_memory(mib);
  ASSERT_TRUE(first.ok() && second.ok());
  const auto third = made->create_memory(page_bytes);
  EXPECT_EQ(third.status().code(), Code::resource_exhausted);
  EXPECT_NE(third.status().message().find("0 B of 2.00 MiB are free"), std::string::npos)
      << third.status().message();
  first->reset();
  EXPECT_TRUE(made->create_memory(mib).ok());
}

// Seconds for 4 MiB each way at 100 MB/s: 42 ms a direction.
double both_ways(LinkDuplex duplex) {
  const std::int64_t bytes = 4 * mib;
  auto made =
      device({.memory_bytes = 2 * bytes, .link_bytes_per_s = 100'000'000, .duplex = duplex});
  auto memory = made->create_memory(2 * bytes).value();
  auto down = made->create_stream().value();
  auto up = made->create_stream().value();
  std::vector<std::byte> host(static_cast<std::size_t>(2 * bytes));
  const auto begin = Clock::now();
  EXPECT_TRUE(down->copy(memory->data(), host.data(), bytes, CopyDirection::to_device).ok());
  EXPECT_TRUE(
      up->copy(host.data() + bytes, memory->data() + bytes, bytes, CopyDirection::to_host).ok());
  EXPECT_TRUE(down->synchronise().ok());
  EXPECT_TRUE(up->synchronise().ok());
  return since(begin);
}

TEST(EmulatedDevice, CopiesNoFasterThanItsLink) {
  EXPECT_GE(both_ways(LinkDuplex::full), 0.0419);
}

TEST(EmulatedDevice, OneEngineServesBothDirectionsInTurn) {
  EXPECT_GE(both_ways(LinkDuplex::shared), 0.0838);
}

TEST(EmulatedDevice, ComputesNoFasterThanItsSpeed) {
  auto made = device({.memory_bytes = mib, .link_bytes_per_s = 1'000'000'000, .speed = 0.1});
  auto stream = made->create_stream().value();
  const auto begin = Clock::now();
  ASSERT_TRUE(stream
                  ->enqueue(
                      [](void*) {
                        const auto from = Clock::now();
                        while (since(from) < 0.005) {
                        }
                      },
                      nullptr)
                  .ok());
  ASSERT_TRUE(stream->synchronise().ok());
  EXPECT_GE(since(begin), 0.05);
}

TEST(LinkPacer, ServesInTurnAndForgetsIdleTime) {
  LinkPacer pacer(1000);
  const auto before = Clock::now();
  const auto first = pacer.take(100);
  const auto second = pacer.take(100, 0.05);
  EXPECT_GE(first - before, std::chrono::milliseconds(100));
  EXPECT_GE(second - first, std::chrono::milliseconds(150))
      << "a latency, and the bytes behind those before";
}

}  // namespace
}  // namespace parbuckle
