// One device of 1 GiB: streams are threads (those of the `cpu` device), device memory is host memory that is known to be
// device memory, so that a copy in the wrong direction is refused as CUDA refuses it.
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include <cuda_runtime_api.h>

#include "parbuckle/units.h"

#include "kernels/runtime/cpu/cpu_device.h"

struct CUstream_st {
  std::unique_ptr<parbuckle::Stream> stream;
};
struct CUevent_st {
  std::unique_ptr<parbuckle::Event> event;
};

namespace {

constexpr std::size_t capacity = std::size_t{1} * parbuckle::gib;

/// What the process has on the device. CUDA's interface has no handle for it.
struct HostDevice {
  std::mutex mutex;
  std::map<const std::byte*, std::unique_ptr<parbuckle::DeviceMemory>> memory;  // by first byte
  std::set<const void*> registered;
  std::size_t used = 0;
  std::unique_ptr<parbuckle::Device> cpu = *parbuckle::CpuDevice::create();

  /// Whether all of it lies in one allocation.
  bool holds(const void* address, std::size_t bytes) {
    const std::lock_guard lock(mutex);
    const auto* const at = static_cast<const std::byte*>(address);
    auto next = memory.upper_bound(at);
    if (next == memory.begin()) {
      return false;
    }
    const auto& [begin, range] = *--next;
    return at + bytes <= begin + range->bytes();
  }
};

HostDevice& device() {
  static HostDevice instance;
  return instance;
}

cudaError_t done(const parbuckle::Status& status) {
  return status.ok() ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory"
         : error == cudaErrorInvalidDevice  ? "invalid device ordinal"
                                            : "invalid argument";
}

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
         : error == cudaErrorInvalidDevice  ? "cudaErrorInvalidDevice"
                                            : "cudaErrorInvalidValue";
}

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int ordinal) {
  return ordinal == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceSynchronize() {
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(device().mutex);
  *free = capacity - device().used;
  *total = capacity;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  if (bytes > capacity - device().used) {
    return cudaErrorMemoryAllocation;
  }
  auto made = device().cpu->create_memory(static_cast<std::int64_t>(bytes));
  if (!made.ok()) {
    return cudaErrorMemoryAllocation;
  }
  std::byte* const begin = (*made)->data();
  std::memset(begin, 0xA5, bytes);  // not zeros: CUDA promises nothing
  device().memory.emplace(begin, std::move(made).value());
  device().used += bytes;
  *address = begin;
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  const std::lock_guard lock(device().mutex);
  const auto found = device().memory.find(static_cast<const std::byte*>(address));
  if (found == device().memory.end()) {
    return cudaErrorInvalidValue;
  }
  device().used -= static_cast<std::size_t>(found->second->bytes());
  device().memory.erase(found);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  if (!device().holds(address, bytes)) {
    return cudaErrorInvalidValue;
  }
  std::memset(address, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (device().holds(to, bytes) != to_device || device().holds(from, bytes) != from_device) {
    return cudaErrorInvalidValue;
  }
  return done(stream->stream->copy(
      to, from, static_cast<std::int64_t>(bytes), parbuckle::CopyDirection::within_device));
}

cudaError_t cudaHostRegister(void* address, std::size_t /*bytes*/, unsigned /*flags*/) {
  const std::lock_guard lock(device().mutex);
  return device().registered.insert(address).second ? cudaSuccess
                                                    : cudaErrorHostMemoryAlreadyRegistered;
}

cudaError_t cudaHostUnregister(void* address) {
  const std::lock_guard lock(device().mutex);
  return device().registered.erase(address) == 1 ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  auto made = device().cpu->create_stream();
  if (!made.ok()) {
    return cudaErrorMemoryAllocation;
  }
  *stream = new CUstream_st{std::move(made).value()};
  return cudaSuccess;
}

/// As CUDA does, gives the handle back; what is enqueued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return done(stream->stream->synchronise());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  return done(stream->stream->wait(*event->event));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* context) {
  return done(stream->stream->enqueue(function, context));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  auto made = device().cpu->create_event();
  if (!made.ok()) {
    return cudaErrorMemoryAllocation;
  }
  *event = new CUevent_st{std::move(made).value()};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return done(stream->stream->record(*event->event));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->event->query() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return done(event->event->synchronise());
}
}
