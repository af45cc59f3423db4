// activation and gated products, forward and backward.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> activation_ops();

}  // namespace parbuckle::cpu
