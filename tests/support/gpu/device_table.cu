// Operands are copied to the GPU, each with a guard of known bytes behind it, and back.
#include "tests/support/device_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "kernels/op_table.h"
#include "kernels/runtime/cuda/handle.h"

namespace parbuckle {
namespace {

constexpr std::size_t guard_bytes = 256;
constexpr int guard_value = 0x5A;

struct Buffer {
  CudaMemoryHandle memory;
  std::size_t bytes = 0;
};

Result<Buffer> make_buffer(const void* from, std::size_t bytes) {
  void* address = nullptr;
  PARBUCKLE_TRY(cuda_status(cudaMalloc(&address, bytes + guard_bytes), "test operand"));
  Buffer buffer{CudaMemoryHandle(address), bytes};
  PARBUCKLE_TRY(cuda_status(cudaMemset(address, guard_value, bytes + guard_bytes), "test guard"));
  if (from != nullptr) {
    PARBUCKLE_TRY(
        cuda_status(cudaMemcpy(address, from, bytes, cudaMemcpyHostToDevice), "test operand"));
  }
  return Result<Buffer>(std::move(buffer));
}

/// Copies the buffer back and looks at its guard.
Status take_back(const Buffer& buffer, void* to, const std::string& what) {
  std::vector<unsigned char> all(buffer.bytes + guard_bytes);
  PARBUCKLE_TRY(cuda_status(
      cudaMemcpy(all.data(), buffer.memory.get(), all.size(), cudaMemcpyDeviceToHost), what));
  if (std::any_of(all.begin() + static_cast<std::ptrdiff_t>(buffer.bytes),
                  all.end(),
                  [](unsigned char byte) { return byte != guard_value; })) {
    return internal_error(what + ": written behind its end");
  }
  if (to != nullptr) {
    std::copy_n(all.begin(), buffer.bytes, static_cast<unsigned char*>(to));
  }
  return {};
}

}  // namespace

struct DeviceTable::State {
  State() {
    const cuda::DataFaults none = [] {
      cuda::DataFaults cells{};
      cells.fill(cuda::no_fault);
      return cells;
    }();
    cells = std::move(make_buffer(none.data(), sizeof(none))).value();
    context.faults = static_cast<std::int64_t*>(cells.memory.get());
  }

  Buffer cells;
  cuda::Context context;
  OpTable kernels = cuda::cuda_op_table(context);

  static Result<std::int64_t> prepare(void* state, const OpShape& op) {
    const OpTable& kernels = static_cast<State*>(state)->kernels;
    return kernels.prepare(kernels.state, op);
  }

  static Status run(void* state, const OpShape& op, const OpArgs& args) {
    auto& self = *static_cast<State*>(state);
    std::vector<Buffer> buffers;
    std::vector<OperandView> views(args.operands.begin(), args.operands.end());
    for (OperandView& view : views) {
      const auto bytes = static_cast<std::size_t>(view.shape.elements() * size_of(view.dtype));
      PARBUCKLE_ASSIGN(Buffer buffer, make_buffer(view.data, bytes));
      view.data = buffer.memory.get();
      buffers.push_back(std::move(buffer));
    }
    PARBUCKLE_ASSIGN(const std::int64_t scratch, prepare(state, op));
    PARBUCKLE_ASSIGN(const Buffer workspace,
                     make_buffer(nullptr, static_cast<std::size_t>(scratch)));
    PARBUCKLE_TRY(self.kernels.run(
        self.kernels.state,
        op,
        {.operands = views, .attributes = args.attributes, .workspace = workspace.memory.get()}));
    const std::string name(to_string(op.kind));
    PARBUCKLE_TRY(cuda_status(cudaDeviceSynchronize(), name));
    PARBUCKLE_TRY(take_back(workspace, nullptr, name + ", workspace"));
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      PARBUCKLE_TRY(
          take_back(buffers[i], args.operands[i].data, name + ", operand " + std::to_string(i)));
    }
    cuda::DataFaults faults{};
    PARBUCKLE_TRY(take_back(self.cells, faults.data(), "fault cells"));
    PARBUCKLE_TRY(cuda::clear_faults(self.context));
    return cuda::fault_status(faults);
  }
};

DeviceTable::DeviceTable(std::uint64_t /*order*/) : state_(std::make_unique<State>()) {
}

DeviceTable::~DeviceTable() = default;

OpTable DeviceTable::table() {
  return {.state = state_.get(), .prepare = State::prepare, .run = State::run};
}

}  // namespace parbuckle
