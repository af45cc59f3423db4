// How a family of operators is offered to the table; how it looks at its operands is in engine/base/operands.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "parbuckle/status.h"
#include "parbuckle/units.h"

#include "cpu/ops/context.h"
#include "engine/base/check.h"
#include "engine/base/op.h"
#include "engine/base/operands.h"

namespace parbuckle::cpu {

/// One row of the operator table; the signatures are those of OpTable with the state given its type.
struct OpEntry {
  OpKind kind;
  Result<std::int64_t> (*prepare)(Context& context, const OpShape& op);
  Status (*run)(Context& context, const OpShape& op, const OpArgs& args);
};

}  // namespace parbuckle::cpu
