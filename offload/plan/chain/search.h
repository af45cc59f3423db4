// Local search over drafts: threshold acceptance with moves led by where the simulated schedule waits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "offload/plan/chain/draft.h"
#include "offload/plan/chain/simulate.h"

namespace parbuckle::chain {

/// Small counter-based generator (splitmix64): the same numbers everywhere.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// In [0, count). REQUIRES: count > 0.
  std::int32_t below(std::int32_t count);
  double unit();
  bool chance(double probability) { return unit() < probability; }
  /// 1, 2, 4.. on average `mean`; never below 1.
  std::int32_t step(std::int32_t mean);

 private:
  std::uint64_t state_;
};

struct Score {
  std::int64_t cost =
      0;  // makespan first, a little lane time; infeasible: above all feasible, less the further it got
  Outcome outcome;
};

class Search {
 public:
  /// REQUIRES: `problem` outlives the search.
  Search(const Problem& problem, Start start, std::uint64_t seed);

  [[nodiscard]] const Draft& draft() const { return draft_; }
  [[nodiscard]] const std::vector<std::int64_t>& starts() const { return simulator_.starts(); }
  [[nodiscard]] const Score& current() const { return current_; }
  [[nodiscard]] const Score& best() const { return best_; }
  [[nodiscard]] const std::vector<GapChoice>& best_choices() const { return best_choices_; }
  [[nodiscard]] std::int64_t events() const { return events_; }
  [[nodiscard]] std::int64_t trials() const { return trials_; }

  /// Makes `choices` the current draft, scores it, and remembers it where it is the best so far.
  Score restart(const std::vector<GapChoice>& choices);
  /// Walks until `events()` reaches `until` or the best makespan is `enough`; tolerance falls from `heat` (a share of
  /// the makespan) to a fiftieth of it.
  void walk(std::int64_t until, double heat, std::int64_t enough);

 private:
  struct Wait {
    std::int32_t task = 0;
    std::int64_t us = 0;
    std::int32_t blocker = 0;
  };

  Score score();
  void note_waits(const Outcome& outcome);
  void remember(const Score& score);
  void change(std::int32_t gap, const GapChoice& choice);
  void undo();
  void propose();
  std::int32_t pick_gap();
  std::int32_t pick_near(std::int32_t position);
  void move(std::int32_t gap);
  void move_tail(std::int32_t gap);
  void move_away(std::int32_t gap);
  void move_stay(std::int32_t gap);
  void move_object(std::int32_t gap);
  void move_window(std::int32_t position);
  std::int32_t some_fetch(const Gap& gap);
  std::int32_t some_rank(std::int32_t rank);

  const Problem& problem_;
  Simulator simulator_;
  Draft draft_;
  Dice dice_;
  Score current_, best_;
  std::vector<GapChoice> best_choices_;
  std::vector<std::pair<std::int32_t, GapChoice>> changed_;  // what undo restores
  std::vector<std::int64_t> begins_;                         // of the current draft
  std::vector<Wait> waits_;                                  // of the current draft
  std::int64_t waited_us_ = 0;
  std::int64_t events_ = 0;
  std::int64_t trials_ = 0;
};

}  // namespace parbuckle::chain
