// Plans for chain problems: a portfolio of greedy drafts, then a local search that the simulator scores.
#pragma once

#include <cstdint>

#include "parbuckle/status.h"

#include "offload/plan/chain/problem.h"
#include "offload/plan/chain/simulate.h"

namespace parbuckle::chain {

struct SearchLimits {
  // Simulated ends of tasks and transfers, all trials together: a count of work, so that results repeat.
  std::int64_t events = 50'000'000;
};

struct Planned {
  Plan plan;
  Outcome outcome;
  std::int64_t lower_bound_us = 0;
  std::int64_t start_makespan_us = 0;  // of the best greedy draft
  std::int64_t trials = 0;
};

/// A pure function: equal inputs, equal plan. Actions at task ends only; an offload moves; no recompute.
/// Errors: resource_exhausted where no plan was found.
Result<Planned> plan_chain(const Problem& problem, Start start, const SearchLimits& limits = {});

}  // namespace parbuckle::chain
