// activation_forward, activation_backward, gated_forward, gated_backward.
#pragma once

#include <span>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

std::span<const OpEntry> activation_ops();

}  // namespace parbuckle::cuda
