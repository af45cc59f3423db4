#include "cpu/op_table.h"

#include <array>
#include <cstddef>
#include <span>

#include "cpu/ops/activation.h"
#include "cpu/ops/adamw.h"
#include "cpu/ops/attention.h"
#include "cpu/ops/elementwise.h"
#include "cpu/ops/embedding.h"
#include "cpu/ops/head_loss.h"
#include "cpu/ops/head_stats.h"
#include "cpu/ops/linear.h"
#include "cpu/ops/norm.h"
#include "cpu/ops/operands.h"
#include "cpu/ops/reduce.h"
#include "cpu/ops/rope.h"
#include "cpu/ops/split.h"

namespace parbuckle::cpu {
namespace {

using Entries = std::array<const OpEntry*, static_cast<std::size_t>(op_kind_count)>;

Entries collect() {
  Entries by_kind{};
  for (const auto family : {activation_ops(),
                            adamw_ops(),
                            attention_ops(),
                            elementwise_ops(),
                            embedding_ops(),
                            head_loss_ops(),
                            head_stats_ops(),
                            linear_ops(),
                            norm_ops(),
                            reduce_ops(),
                            rope_ops(),
                            split_ops()}) {
    for (const OpEntry& entry : family) {
      by_kind[static_cast<std::size_t>(entry.kind)] = &entry;
    }
  }
  return by_kind;
}

const OpEntry& entry_of(OpKind kind) {
  static const Entries entries = collect();
  const OpEntry* const entry = entries[static_cast<std::size_t>(kind)];
  PARBUCKLE_CHECK(entry != nullptr, "an operator kind has no CPU implementation");
  return *entry;
}

Result<std::int64_t> prepare(void* state, const OpShape& op) {
  auto& context = *static_cast<Context*>(state);
  context.team().adopt();
  return entry_of(op.kind).prepare(context, op);
}

Status run(void* state, const OpShape& op, const OpArgs& args) {
  auto& context = *static_cast<Context*>(state);
  context.team().adopt();
  PARBUCKLE_CHECK(args.operands.size() == op.operands.size(),
                  "operands and shapes differ in number");
  return entry_of(op.kind).run(context, op, args);
}

}  // namespace

OpTable cpu_op_table(Context& context) {
  return {.state = &context, .prepare = prepare, .run = run};
}

}  // namespace parbuckle::cpu
