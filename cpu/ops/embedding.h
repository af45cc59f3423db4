// Token and position tables: embedding_forward, position_forward, embedding_backward.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> embedding_ops();

}  // namespace parbuckle::cpu
