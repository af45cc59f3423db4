// adamw, adamw_table: the same bits as the CPU's.
#pragma once

#include <span>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

std::span<const OpEntry> adamw_ops();

}  // namespace parbuckle::cuda
