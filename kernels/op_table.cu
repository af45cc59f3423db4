#include "kernels/op_table.h"

#include <array>
#include <span>

#include "kernels/ops/activation.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/head.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/operands.h"
#include "kernels/ops/pointwise.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/rope.h"

namespace parbuckle::cuda {
namespace {

using Entries = std::array<const OpEntry*, static_cast<std::size_t>(op_kind_count)>;

Entries collect() {
  Entries by_kind{};
  for (const auto family : {activation_ops(),
                            adamw_ops(),
                            attention_ops(),
                            embedding_ops(),
                            head_ops(),
                            linear_ops(),
                            norm_ops(),
                            pointwise_ops(),
                            reduce_ops(),
                            rope_ops()}) {
    for (const OpEntry& entry : family) {
      by_kind[static_cast<std::size_t>(entry.kind)] = &entry;
    }
  }
  return by_kind;
}

const OpEntry& entry_of(OpKind kind) {
  static const Entries entries = collect();
  const OpEntry* const entry = entries[static_cast<std::size_t>(kind)];
  PARBUCKLE_CHECK(entry != nullptr, "an operator kind has no CUDA implementation");
  return *entry;
}

Result<std::int64_t> prepare(void* /*state*/, const OpShape& op) {
  return entry_of(op.kind).prepare(op);
}

Status run(void* state, const OpShape& op, const OpArgs& args) {
  PARBUCKLE_CHECK(args.operands.size() == op.operands.size(),
                  "operands and shapes differ in number");
  return entry_of(op.kind).run(*static_cast<const Context*>(state), op, args);
}

}  // namespace

OpTable cuda_op_table(Context& context) {
  return {.state = &context, .prepare = prepare, .run = run};
}

}  // namespace parbuckle::cuda
