// Chain problems and plans in the line format of the planner cases: one JSON object a line, positional arrays.
#pragma once

#include <string_view>
#include <vector>

#include "parbuckle/status.h"

#include "offload/plan/chain/problem.h"

namespace parbuckle::chain {

/// Reads {"id", "family", "fast_capacity", "link", "objects", "tasks", "recompute"}; the message names the faulty field.
Result<Problem> problem_from_json(std::string_view text);

/// Reads {"preplace": [object], "after": [[position, [release], [offload], [prefetch]]]} for a chain of `tasks` tasks.
Result<Plan> plan_from_json(std::string_view text, std::int32_t tasks);

}  // namespace parbuckle::chain
