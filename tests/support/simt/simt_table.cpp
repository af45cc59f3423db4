#include "tests/support/simt/simt_table.h"

#include <string>

namespace parbuckle {

SimtTable::SimtTable(std::uint64_t seed)
    : machine_(seed),
      context_{.queue = {&machine_}, .faults = faults_.data()},
      kernels_(cuda::cuda_op_table(context_)) {
  faults_.fill(cuda::no_fault);
}

OpTable SimtTable::table() {
  return {.state = this, .prepare = prepare, .run = run};
}

Result<std::int64_t> SimtTable::prepare(void* state, const OpShape& op) {
  const OpTable& kernels = static_cast<SimtTable*>(state)->kernels_;
  return kernels.prepare(kernels.state, op);
}

Status SimtTable::run(void* state, const OpShape& op, const OpArgs& args) {
  auto& self = *static_cast<SimtTable*>(state);
  PARBUCKLE_TRY(self.kernels_.run(self.kernels_.state, op, args));
  if (!self.machine_.faults().empty()) {
    const std::string text = self.machine_.faults().front().text;
    self.machine_.forget_faults();
    return internal_error(std::string(to_string(op.kind)) + ": " + text);
  }
  const Status found = cuda::fault_status(self.faults_);
  PARBUCKLE_TRY(cuda::clear_faults(self.context_));
  return found;
}

}  // namespace parbuckle
