// A chain plan under construction. The life of an object is cut at its uses into gaps; for each gap one says whether the
// object stays in fast or leaves, and when. Every draft is legal by construction; only time and room can still fail it.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/plan/chain/problem.h"

namespace parbuckle::chain {

enum class GapKind : std::uint8_t {
  opening,  // from t = 0 to the first use of an object of the backing tier: preplaced, or fetched
  inner,    // between two needs
  tail      // after the last need: released, or written back
};

struct Gap {
  GapKind kind = GapKind::inner;
  std::int32_t object = 0;
  std::int32_t begin = 0;     // task whose use begins it; -1: t = 0
  std::int32_t end = 0;       // task whose use ends it; number of tasks: the end of the chain
  std::int32_t earliest = 0;  // first position at which anything may happen to it
  bool written = false;       // the begin makes the fast copy newer
  bool may_stay = true;
  bool may_leave = true;

  [[nodiscard]] std::int32_t last_leave() const {
    return kind == GapKind::tail ? end - 1 : end - 2;
  }
  [[nodiscard]] std::int32_t first_fetch(std::int32_t leave) const {
    return kind == GapKind::opening ? earliest : leave + 1;
  }
};

struct GapChoice {
  bool leaves = false;
  std::int32_t leave = 0;       // position of the release or offload (inner and tail)
  std::int32_t fetch = 0;       // position of the prefetch (opening and inner)
  std::int32_t leave_rank = 0;  // order among offloads of one position, then by object
  std::int32_t fetch_rank = 0;  // order among prefetches of one position, then by object
};

class Draft {
 public:
  /// Everything stays where it may; what must leave does so at once and comes back at the last moment.
  Draft(const Problem& problem, Start start);

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const std::vector<Gap>& gaps() const { return gaps_; }
  [[nodiscard]] const std::vector<GapChoice>& choices() const { return choices_; }
  [[nodiscard]] const GapChoice& choice(std::int32_t gap) const { return choices_[at(gap)]; }
  [[nodiscard]] std::int32_t first_gap(std::int32_t object) const { return first_gap_[at(object)]; }
  [[nodiscard]] std::int32_t end_gap(std::int32_t object) const {
    return first_gap_[at(object) + 1];
  }
  /// Gaps that are not tails and cover the end of task `position`; the object may leave and be back there.
  [[nodiscard]] const std::vector<std::int32_t>& covering(std::int32_t position) const {
    return covering_[at(position)];
  }

  /// The choice a leaving gap starts from: leaves at once, comes back just before its end.
  [[nodiscard]] GapChoice usual(std::int32_t gap) const;
  /// Brings positions into the gap's limits.
  [[nodiscard]] GapChoice clamped(std::int32_t gap, GapChoice choice) const;

  /// Replaces a choice (clamped) and the actions of the gap's object. O(gaps of the object + actions there).
  void set(std::int32_t gap, const GapChoice& choice);
  /// Replaces all. REQUIRES: choices of a draft of the same problem and start.
  void set_all(const std::vector<GapChoice>& choices);

 private:
  void add_gaps(const Problem& problem,
                Start start,
                std::int32_t object,
                const std::vector<std::int32_t>& uses);
  void remove_actions(std::int32_t object);
  void add_actions(std::int32_t object);
  void add_leave(std::int32_t gap, bool current);
  void add_fetch(std::int32_t gap);

  std::int32_t tasks_ = 0;
  std::vector<Home> initial_, final_;
  std::vector<Gap> gaps_;                // by object, ascending in time
  std::vector<std::int32_t> first_gap_;  // [object], one more at the end
  std::vector<GapChoice> choices_;
  std::vector<std::vector<std::int32_t>> covering_;
  Plan plan_;
  std::vector<std::vector<std::int32_t>> offload_gaps_,
      fetch_gaps_;  // [position + 1], beside the plan's lists
};

}  // namespace parbuckle::chain
