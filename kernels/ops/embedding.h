// embedding_forward, position_forward, embedding_backward.
#pragma once

#include <span>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

std::span<const OpEntry> embedding_ops();

}  // namespace parbuckle::cuda
