// rope_table, rope_forward, rope_backward.
#pragma once

#include <span>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

std::span<const OpEntry> rope_ops();

}  // namespace parbuckle::cuda
