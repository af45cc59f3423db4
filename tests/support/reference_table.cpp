#include "tests/support/reference_table.h"

#include <string>

#include "tests/support/reference_ops.h"

namespace parbuckle {
namespace {

Result<std::int64_t> prepare(void* /*state*/, const OpShape& /*op*/) {
  return std::int64_t{0};
}

Status run(void* /*state*/, const OpShape& op, const OpArgs& args) {
  const reference::Call call = {args, *args.attributes};
  for (const auto group : {reference::layer_ops(),
                           reference::attention_ops(),
                           reference::table_ops(),
                           reference::head_ops(),
                           reference::update_ops()}) {
    for (const reference::Entry& entry : group) {
      if (entry.kind == op.kind) {
        entry.run(call);
        return {};
      }
    }
  }
  return internal_error("no reference for " + std::string(to_string(op.kind)));
}

}  // namespace

OpTable reference_table() {
  return {.state = nullptr, .prepare = prepare, .run = run};
}

}  // namespace parbuckle
