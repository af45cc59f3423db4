// Sums of squares, touched rows, global_norm, prepare_update.
#pragma once

#include <span>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

std::span<const OpEntry> reduce_ops();

}  // namespace parbuckle::cuda
