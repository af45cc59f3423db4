// The output layer in two passes, one vocabulary part at a time: head_stats, head_stats_loss, head_grad.
#pragma once

#include <span>

#include "cpu/ops/operands.h"

namespace parbuckle::cpu {

std::span<const OpEntry> head_stats_ops();

}  // namespace parbuckle::cpu
