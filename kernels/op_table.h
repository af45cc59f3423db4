// The operators of engine/base/op.h on a CUDA device: what the rest of the system sees of this room.
#pragma once

#include "engine/base/op.h"
#include "kernels/ops/context.h"

namespace parbuckle::cuda {

/// Every OpKind, in fp32. Operands and workspaces are device memory; run() enqueues on the context's queue and returns:
/// what it finds wrong in data is read from the context's fault cells afterwards. The context must outlive the table.
OpTable cuda_op_table(Context& context);

}  // namespace parbuckle::cuda
