// Rotary positions: rope_table, rope_forward, rope_backward.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> rope_ops();

}  // namespace parbuckle::cpu
