#include "kernels/ops/context.h"

#include <string>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {
namespace {

struct Clear {
  Global<std::int64_t> faults;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const { faults[i] = no_fault; }
};

constexpr std::int64_t code_bits = 32;

std::string row_and_id(std::int64_t code, const char* what) {
  return std::string(what) + " " + std::to_string(code % (std::int64_t{1} << code_bits)) +
         " of row " + std::to_string(code >> code_bits);
}

}  // namespace

Status clear_faults(const Context& context) {
  return for_each(context, data_faults, Clear{view_faults(context)});
}

Status fault_status(const DataFaults& faults) {
  const auto of = [&](DataFault kind) { return faults[static_cast<std::size_t>(kind)]; };
  if (const std::int64_t code = of(DataFault::position); code != no_fault) {
    return invalid(row_and_id(code, "position") + ": the table or cache has not so many rows");
  }
  if (const std::int64_t code = of(DataFault::target); code != no_fault) {
    return invalid(row_and_id(code, "target") + ": the vocabulary has not so many entries");
  }
  if (const std::int64_t code = of(DataFault::gradient); code != no_fault) {
    return invalid("the gradient has an entry that is not finite (element " + std::to_string(code) +
                   " of a tensor): a lower learning rate or clipping may help");
  }
  return {};
}

}  // namespace parbuckle::cuda
