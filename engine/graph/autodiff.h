// Appends the backward ops of each unit to a graph.
#pragma once

#include "parbuckle/status.h"

#include "engine/base/graph.h"

namespace parbuckle {

/// Walks each unit's forward ops in reverse. The gradient of a unit's output arrives in the `stream` value and that of its
/// input leaves in it: a residual sum passes it through, so that the unit's branch adds its part in place.
/// Fails (internal) where a unit's ops have no rule, or would change the stream before its last reader.
Status append_backward(Graph& graph);

}  // namespace parbuckle
