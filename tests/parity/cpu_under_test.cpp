#include <memory>

#include "cpu/op_table.h"
#include "cpu/ops/context.h"
#include "tests/support/fixture_model.h"
#include "tests/support/table_under_test.h"

namespace parbuckle {

OpTable table_under_test() {
  constexpr int threads = 2;
  static const std::unique_ptr<cpu::Context> context = *cpu::Context::create(threads);
  return cpu::cpu_op_table(*context);
}

std::vector<std::string> models_under_test() {
  return parity_models();
}

}  // namespace parbuckle
