// What a unit's backward needs from its forward, and how it gets it: kept, or computed again by the same ops.
#pragma once

#include <set>
#include <vector>

#include "engine/base/graph.h"

namespace parbuckle {

/// Values worth keeping from forward to backward: outputs of matrix products and attention. What follows from them by
/// cheap ops (norms, activations, rotations) is computed again. REQUIRES: append_backward was called.
std::vector<ValueId> saved_values(const GraphUnit& unit);

/// The forward ops, in their order, that bring back everything the backward reads and that is not in `available`.
/// They are the forward's own ops at the forward's own shapes, so they give the same bits.
std::vector<GraphOp> ops_to_redo(const GraphUnit& unit, const std::set<ValueId>& available);

}  // namespace parbuckle
