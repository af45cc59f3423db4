// Chain plans that may also drop an object and run its producer again: richer moves than plan_chain's.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/plan/chain/planner.h"

namespace parbuckle::chain {

struct RecomputePlanned {
  std::vector<std::int32_t> chosen;  // indices into problem.recompute, ascending
  Planned planned;                   // for with_recompute(problem, chosen)
};

/// Which alternatives to take is searched with greedy drafts only; the best set and the empty one then get half of the
/// work each, and the faster plan is returned (the empty set's where they are equal).
/// Errors: resource_exhausted where no plan was found with any set.
Result<RecomputePlanned> plan_chain_with_recompute(const Problem& problem,
                                                   Start start,
                                                   const SearchLimits& limits = {});

}  // namespace parbuckle::chain
