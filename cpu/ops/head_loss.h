// Output layer with softmax cross-entropy in one pass over all vocabulary parts: head_loss.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> head_loss_ops();

}  // namespace parbuckle::cpu
