// adamw and adamw_table.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> adamw_ops();

}  // namespace parbuckle::cpu
