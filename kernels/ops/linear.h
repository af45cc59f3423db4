// linear_forward, linear_backward_input, linear_backward_weight, bias_backward.
#pragma once

#include <span>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

std::span<const OpEntry> linear_ops();

}  // namespace parbuckle::cuda
