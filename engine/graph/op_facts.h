// What op.h says in words, as data: how each op touches its operands, what it costs, which forward ops are cheap to redo.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/base/op.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// How the op touches operand `index`. "=" operands that one call fills only in part (one table part's rows, one block's
/// sums) count as updated.
Access operand_access(OpKind kind, const Attributes& attributes, std::size_t index);

/// Memory-bound forward ops: recomputing their outputs in the backward costs less than keeping them.
bool is_cheap(OpKind kind);

/// Multiplications and additions of matrix products and of attention; 0 for all others.
/// Attention counts the causal pairs of one unbroken sequence.
double flops_of(const OpShape& op);

}  // namespace parbuckle
