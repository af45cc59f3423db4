// add, copy, fill_zero, split3, merge3.
#pragma once

#include <span>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

std::span<const OpEntry> pointwise_ops();

}  // namespace parbuckle::cuda
