// add, copy, fill_zero.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> elementwise_ops();

}  // namespace parbuckle::cpu
