// Greedy drafts from which the search sets out.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/plan/chain/draft.h"

namespace parbuckle::chain {

enum class Eviction : std::uint8_t {
  farthest,        // longest until its next use (Belady)
  cheapest,        // least transfer time per byte freed and microsecond
  largest,         // most bytes
  clean_farthest,  // as farthest, what needs no write-back first
  all              // everything that may
};

struct StartRule {
  Eviction eviction = Eviction::farthest;
  double headroom = 0;  // share of the room above the largest task that stays free for transfers
  double lead =
      1;  // a fetch is due this many of its own lengths of lane time before its use; 0: at the last moment
};

std::vector<StartRule> start_rules();

/// Chooses what leaves by the memory profile over tasks, then where fetches begin: backwards from their deadlines, as
/// one lane serves them, never before the profile has room. `begins`: when tasks start, estimated or simulated.
std::vector<GapChoice> make_start(const Problem& problem,
                                  const Draft& empty,
                                  const StartRule& rule,
                                  const std::vector<std::int64_t>& begins);

/// After each task only what the next one reads stays. Finishes wherever any plan can.
std::vector<GapChoice> make_demand_start(const Draft& empty);

}  // namespace parbuckle::chain
