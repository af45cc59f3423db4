// Causal grouped-head attention: attention_forward, attention_backward, attention_cached.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> attention_ops();

}  // namespace parbuckle::cpu
