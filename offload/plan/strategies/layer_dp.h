// Layer x strategy dynamic programme under a memory budget (the problem of Hetu-Galvatron's core), solved exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "parbuckle/status.h"

namespace parbuckle {

struct LayerStrategyProblem {
  std::int64_t budget = 0;                        // of the summed memory
  std::vector<std::vector<std::int64_t>> time;    // [layer][strategy]
  std::vector<std::vector<std::int64_t>> memory;  // [layer][strategy], zero allowed
  std::vector<std::vector<std::int64_t>>
      transfer;  // [strategy before][strategy], between neighbouring layers
  std::vector<std::int64_t> transfer_scale;  // [layer]; the first is not used
};

struct LayerStrategies {
  std::vector<std::int32_t> strategy;  // [layer]
  std::int64_t cost = 0;
  std::int64_t memory = 0;
};

/// Minimises sum time[l][c_l] + sum_{l>0} transfer[c_{l-1}][c_l] * transfer_scale[l] with sum memory[l][c_l] <= budget.
/// Exact for any non-negative integers: per last strategy the Pareto front of (memory, cost) is kept, two buffers, so
/// entries of zero memory never meet values of their own layer. At most O(layers * strategies^2 * budget).
/// Errors: resource_exhausted where nothing fits; invalid_argument where sizes disagree or a number is negative.
Result<LayerStrategies> solve_layer_strategies(const LayerStrategyProblem& problem);

}  // namespace parbuckle
