// Streams and events of a GPU. The driver keeps the queues; nothing here blocks but what says so.
#pragma once

#include "kernels/runtime/cuda/handle.h"
#include "kernels/runtime/device.h"

namespace parbuckle {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(CudaEventHandle handle) : handle_(std::move(handle)) {}

  [[nodiscard]] bool query() const override { return cudaEventQuery(handle_.get()) == cudaSuccess; }
  Status synchronise() override;
  [[nodiscard]] cudaEvent_t handle() const { return handle_.get(); }

 private:
  CudaEventHandle handle_;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(CudaStreamHandle handle) : handle_(std::move(handle)) {}
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  CudaStream(CudaStream&&) = delete;
  CudaStream& operator=(CudaStream&&) = delete;
  ~CudaStream() override;

  /// The function runs on a thread of the driver and must not call CUDA.
  Status enqueue(HostFunction function, void* context) override;
  Status copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction) override;
  Status record(Event& event) override;
  Status wait(Event& event) override;
  Status synchronise() override;
  /// What kernels are launched on.
  [[nodiscard]] cudaStream_t handle() const { return handle_.get(); }

 private:
  CudaStreamHandle handle_;
};

}  // namespace parbuckle
