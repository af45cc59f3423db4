#include "tests/support/device_table.h"

#include <simt/machine.h>
#include <string>

#include "kernels/op_table.h"

namespace parbuckle {

struct DeviceTable::State {
  explicit State(std::uint64_t order) : machine(order) { faults.fill(cuda::no_fault); }

  simt::Machine machine;
  cuda::DataFaults faults{};
  cuda::Context context{.queue = {&machine}, .faults = faults.data()};
  OpTable kernels = cuda::cuda_op_table(context);

  static Result<std::int64_t> prepare(void* state, const OpShape& op) {
    const OpTable& kernels = static_cast<State*>(state)->kernels;
    return kernels.prepare(kernels.state, op);
  }

  static Status run(void* state, const OpShape& op, const OpArgs& args) {
    auto& self = *static_cast<State*>(state);
    PARBUCKLE_TRY(self.kernels.run(self.kernels.state, op, args));
    if (!self.machine.faults().empty()) {
      const std::string text = self.machine.faults().front().text;
      self.machine.forget_faults();
      return internal_error(std::string(to_string(op.kind)) + ": " + text);
    }
    const Status found = cuda::fault_status(self.faults);
    PARBUCKLE_TRY(cuda::clear_faults(self.context));
    return found;
  }
};

DeviceTable::DeviceTable(std::uint64_t order) : state_(std::make_unique<State>(order)) {
}

DeviceTable::~DeviceTable() = default;

OpTable DeviceTable::table() {
  return {.state = state_.get(), .prepare = State::prepare, .run = State::run};
}

}  // namespace parbuckle
