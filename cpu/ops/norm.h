// rms_norm and layer_norm, forward and backward.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> norm_ops();

}  // namespace parbuckle::cpu
