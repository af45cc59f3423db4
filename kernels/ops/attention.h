// attention_forward, attention_backward, attention_cached, in fp32.
#pragma once

#include <span>

#include "kernels/ops/operands.h"

namespace parbuckle::cuda {

std::span<const OpEntry> attention_ops();

}  // namespace parbuckle::cuda
