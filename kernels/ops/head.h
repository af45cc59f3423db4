// head_loss, head_stats, head_stats_loss, head_grad.
#pragma once

#include <span>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

std::span<const OpEntry> head_ops();

}  // namespace parbuckle::cuda
