// split3, merge3: a fused projection and its three dense parts.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> split_ops();

}  // namespace parbuckle::cpu
