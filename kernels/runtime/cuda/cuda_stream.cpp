#include "kernels/runtime/cuda/cuda_stream.h"

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

cudaMemcpyKind kind_of(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::to_device:
      return cudaMemcpyHostToDevice;
    case CopyDirection::to_host:
      return cudaMemcpyDeviceToHost;
    case CopyDirection::within_device:
      return cudaMemcpyDeviceToDevice;
  }
  return cudaMemcpyDefault;
}

const char* text_of(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::to_device:
      return "to the device";
    case CopyDirection::to_host:
      return "to the host";
    case CopyDirection::within_device:
      return "within the device";
  }
  return "";
}

}  // namespace

Status CudaEvent::synchronise() {
  return cuda_status(cudaEventSynchronize(handle_.get()), "cuda: waiting for an event");
}

/// What was enqueued runs first: destroying a stream alone would not wait for it.
CudaStream::~CudaStream() {
  (void)cudaStreamSynchronize(handle_.get());
}

Status CudaStream::enqueue(HostFunction function, void* context) {
  return cuda_status(cudaLaunchHostFunc(handle_.get(), function, context),
                     "cuda: enqueueing a host function");
}

Status CudaStream::copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction) {
  return cuda_status(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind_of(direction), handle_.get()),
      "cuda: copying " + format_size(bytes) + " " + text_of(direction));
}

Status CudaStream::record(Event& event) {
  return cuda_status(cudaEventRecord(static_cast<CudaEvent&>(event).handle(), handle_.get()),
                     "cuda: recording an event");
}

Status CudaStream::wait(Event& event) {
  return cuda_status(cudaStreamWaitEvent(handle_.get(), static_cast<CudaEvent&>(event).handle(), 0),
                     "cuda: letting a stream wait for an event");
}

Status CudaStream::synchronise() {
  return cuda_status(cudaStreamSynchronize(handle_.get()), "cuda: waiting for a stream");
}

}  // namespace parbuckle
