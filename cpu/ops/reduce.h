// Sums of squares, rows of tied tables, the global norm: everything between the gradients and the update.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> reduce_ops();

}  // namespace parbuckle::cpu
