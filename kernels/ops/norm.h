// rms_norm and layer_norm, forward and backward.
#pragma once

#include <span>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

std::span<const OpEntry> norm_ops();

}  // namespace parbuckle::cuda
