// The operators of engine/base/op.h on the CPU: what the rest of the system sees of this room.
#pragma once

#include "cpu/ops/context.h"
#include "engine/base/op.h"

namespace parbuckle::cpu {

/// Every OpKind, in fp32. The context must outlive the table; like it, the table is for one thread at a time.
OpTable cpu_op_table(Context& context);

}  // namespace parbuckle::cpu
