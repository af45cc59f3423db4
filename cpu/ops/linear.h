// Matrix products of layers: linear_forward, linear_backward_input, linear_backward_weight, bias_backward.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> linear_ops();

}  // namespace parbuckle::cpu
