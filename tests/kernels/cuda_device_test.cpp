// What only the CUDA device has: pinned ranges, its use of memory, and errors that say what was asked.
#include "kernels/runtime/cuda/cuda_device.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "tests/support/near.h"

namespace parbuckle {
namespace {

std::unique_ptr<Device> first_device() {
  return std::move(CudaDevice::create(0)).value();
}

TEST(CudaDevice, RefusesAnOrdinalThatIsNotThere) {
  const auto none = CudaDevice::create(7);
  EXPECT_EQ(none.status().code(), Code::unsupported);
  EXPECT_EQ(none.status().message(), "cuda:7: 1 CUDA devices are here, counted from 0");
}

TEST(CudaDevice, SaysWhatWasAskedWhereMemoryIsShort) {
  const auto device = first_device();
  const auto status = device->create_memory(96 * gib).status();
  EXPECT_EQ(status.code(), Code::resource_exhausted);
  EXPECT_EQ(status.message(),
            "cuda:0: 96.0 GiB of device memory: out of memory (cudaErrorMemoryAllocation)");
}

TEST(CudaDevice, CountsWhatIsInUse) {
  const auto device = first_device();
  auto& cuda = static_cast<CudaDevice&>(*device);
  const std::int64_t before = *cuda.used_bytes();
  {
    const auto memory = device->create_memory(mib);
    ASSERT_TRUE(memory.ok());
    EXPECT_GE(*cuda.used_bytes(), before + mib);
  }
  EXPECT_EQ(*cuda.used_bytes(), before);
}

TEST(CudaDevice, PinsARangeOnceAndGivesItBack) {
  const auto device = first_device();
  auto& cuda = static_cast<CudaDevice&>(*device);
  std::vector<std::byte> arena(8192);
  {
    const auto pinned = cuda.pin(arena.data(), 8192);
    ASSERT_TRUE(pinned.ok());
    EXPECT_FALSE(cuda.pin(arena.data(), 8192).ok());
  }
  EXPECT_TRUE(cuda.pin(arena.data(), 8192).ok());
}

TEST(CudaDevice, ACopyInTheWrongDirectionIsAnErrorThatNamesIt) {
  const auto device = first_device();
  const auto stream = std::move(device->create_stream()).value();
  const auto memory = std::move(device->create_memory(4096)).value();
  std::vector<std::byte> host(4096);
  const Status status = stream->copy(host.data(), memory->data(), 4096, CopyDirection::to_device);
  EXPECT_EQ(status.code(), Code::internal);
  EXPECT_NE(status.message().find("copying 4.00 KiB to the device"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace parbuckle
