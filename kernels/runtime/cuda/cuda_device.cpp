#include "kernels/runtime/cuda/cuda_device.h"

#include "parbuckle/units.h"

#include "kernels/runtime/cuda/cuda_stream.h"

namespace parbuckle {
namespace {

/// CUDA aligns to 256 bytes only; the seam promises pages, so there is one page more.
class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(CudaMemoryHandle memory, std::int64_t bytes)
      : memory_(std::move(memory)), bytes_(bytes) {}

  [[nodiscard]] std::byte* data() const override {
    const auto address = reinterpret_cast<std::intptr_t>(memory_.get());
    return static_cast<std::byte*>(memory_.get()) + (round_up(address, page_bytes) - address);
  }
  [[nodiscard]] std::int64_t bytes() const override { return bytes_; }

 private:
  CudaMemoryHandle memory_;
  std::int64_t bytes_;
};

}  // namespace

Result<std::unique_ptr<Device>> CudaDevice::create(int ordinal) {
  const std::string name = "cuda:" + std::to_string(ordinal);
  int count = 0;
  PARBUCKLE_TRY(cuda_status(cudaGetDeviceCount(&count), name));
  if (ordinal < 0 || ordinal >= count) {
    return unsupported(name + ": " + std::to_string(count) +
                       " CUDA devices are here, counted from 0");
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal, name));  // private constructor
  PARBUCKLE_TRY(device->select());
  return std::unique_ptr<Device>(std::move(device));
}

Status CudaDevice::select() const {
  return cuda_status(cudaSetDevice(ordinal_), name_);
}

Result<std::unique_ptr<Stream>> CudaDevice::create_stream() {
  PARBUCKLE_TRY(select());
  cudaStream_t stream = nullptr;
  PARBUCKLE_TRY(cuda_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                            name_ + ": making a stream"));
  return std::unique_ptr<Stream>(std::make_unique<CudaStream>(CudaStreamHandle(stream)));
}

Result<std::unique_ptr<Event>> CudaDevice::create_event() {
  PARBUCKLE_TRY(select());
  cudaEvent_t event = nullptr;
  PARBUCKLE_TRY(
      cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
                  name_ + ": making an event"));
  return std::unique_ptr<Event>(std::make_unique<CudaEvent>(CudaEventHandle(event)));
}

Result<std::unique_ptr<DeviceMemory>> CudaDevice::create_memory(std::int64_t bytes) {
  if (bytes <= 0) {
    return invalid(name_ + ": " + std::to_string(bytes) + " bytes asked, must be positive");
  }
  PARBUCKLE_TRY(select());
  const std::string asked = name_ + ": " + format_size(bytes) + " of device memory";
  const auto with_page = static_cast<std::size_t>(bytes + page_bytes);
  void* address = nullptr;
  PARBUCKLE_TRY(cuda_status(cudaMalloc(&address, with_page), asked));
  CudaMemoryHandle memory(address);
  PARBUCKLE_TRY(cuda_status(cudaMemset(address, 0, with_page), asked + ", filled with zeros"));
  // The zeros are written by the default stream, which our streams do not wait for.
  PARBUCKLE_TRY(cuda_status(cudaDeviceSynchronize(), asked + ", filled with zeros"));
  return std::unique_ptr<DeviceMemory>(std::make_unique<CudaMemory>(std::move(memory), bytes));
}

Result<PinnedRange> CudaDevice::pin(void* begin, std::int64_t bytes) {
  PARBUCKLE_TRY(select());
  PARBUCKLE_TRY(
      cuda_status(cudaHostRegister(begin, static_cast<std::size_t>(bytes), cudaHostRegisterDefault),
                  name_ + ": registering " + format_size(bytes) + " of host memory"));
  return PinnedRange(begin);
}

Result<std::int64_t> CudaDevice::used_bytes() {
  PARBUCKLE_TRY(select());
  std::size_t free = 0;
  std::size_t total = 0;
  PARBUCKLE_TRY(cuda_status(cudaMemGetInfo(&free, &total), name_ + ": asking for free memory"));
  return static_cast<std::int64_t>(total - free);
}

}  // namespace parbuckle
