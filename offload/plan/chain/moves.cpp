// The moves of the search: which gap to touch, and how.
#include <algorithm>

#include "offload/plan/chain/search.h"

namespace parbuckle::chain {

void Search::propose() {
  const std::int32_t count = dice_.chance(0.65) ? 1 : 1 + dice_.step(1);
  const std::int32_t lead = pick_gap();
  if (lead < 0) {
    return;
  }
  if (dice_.chance(0.04)) {
    move_window(draft_.gaps()[at(lead)].end);
    return;
  }
  if (dice_.chance(0.04)) {
    move_object(lead);
    return;
  }
  move(lead);
  for (std::int32_t i = 1; i < count; ++i) {
    const std::int32_t gap =
        dice_.chance(0.5) ? pick_near(draft_.gaps()[at(lead)].end) : pick_gap();
    if (gap >= 0) {
      move(gap);
    }
  }
}

std::int32_t Search::pick_near(std::int32_t position) {
  const std::int32_t k =
      std::clamp(position - dice_.step(3) + dice_.below(3), 0, task_count(problem_) - 1);
  const std::vector<std::int32_t>& gaps = draft_.covering(k);
  return gaps.empty() ? -1 : gaps[at(dice_.below(static_cast<std::int32_t>(gaps.size())))];
}

// Half of the time something near a wait, for its length; else anything.
std::int32_t Search::pick_gap() {
  const auto gaps = static_cast<std::int32_t>(draft_.gaps().size());
  if (gaps == 0 || waited_us_ == 0 || dice_.chance(0.35)) {
    return gaps == 0 ? -1 : dice_.below(gaps);
  }
  auto point = static_cast<std::int64_t>(dice_.unit() * static_cast<double>(waited_us_));
  std::size_t i = 0;
  while (i + 1 < waits_.size() && point >= waits_[i].us) {
    point -= waits_[i++].us;
  }
  const Wait& wait = waits_[i];
  if (wait.blocker >= 0 && dice_.chance(0.4)) {
    for (std::int32_t g = draft_.first_gap(wait.blocker); g < draft_.end_gap(wait.blocker); ++g) {
      if (draft_.gaps()[at(g)].end == wait.task) {
        return g;
      }
    }
  }
  return pick_near(wait.task - (dice_.chance(0.5) ? dice_.step(8) : 0));
}

void Search::move(std::int32_t gap) {
  if (draft_.gaps()[at(gap)].kind == GapKind::tail) {
    move_tail(gap);
  } else if (draft_.choice(gap).leaves) {
    move_away(gap);
  } else {
    move_stay(gap);
  }
}

std::int32_t Search::some_rank(std::int32_t rank) {
  const std::int32_t step = 8 * dice_.step(6);
  return rank + (dice_.chance(0.5) ? step : -step);
}

void Search::move_tail(std::int32_t gap) {
  GapChoice choice = draft_.choice(gap);
  const Gap& it = draft_.gaps()[at(gap)];
  switch (dice_.below(4)) {
    case 0:
      choice.leave = it.earliest;
      break;
    case 1:
      choice.leave += dice_.chance(0.5) ? dice_.step(2) : -dice_.step(2);
      break;
    case 2:
      choice.leave = it.earliest + dice_.below(std::max(1, it.end - it.earliest));
      break;
    default:
      choice.leave_rank = some_rank(choice.leave_rank);
  }
  change(gap, choice);
}

// A position for the prefetch: near the end, by lane time before it, or anywhere.
std::int32_t Search::some_fetch(const Gap& gap) {
  const std::int32_t kind = dice_.below(5);
  if (kind < 2) {
    return gap.end - dice_.step(2);
  }
  if (kind < 4) {
    const std::int64_t due = gap.end < task_count(problem_) ? begins_[at(gap.end)] : begins_.back();
    const auto lead = static_cast<double>(in_us(problem_, problem_.objects[at(gap.object)].bytes));
    const std::int64_t time =
        due - static_cast<std::int64_t>(lead * (1.0 + 4.0 * dice_.unit() * dice_.unit()));
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), time);
    return static_cast<std::int32_t>(after - begins_.begin()) - 2;
  }
  return gap.earliest + dice_.below(std::max(1, gap.end - gap.earliest));
}

void Search::move_away(std::int32_t gap) {
  GapChoice choice = draft_.choice(gap);
  const Gap& it = draft_.gaps()[at(gap)];
  const std::int32_t kind = dice_.below(20);
  if (kind < 4 && it.may_stay) {
    choice.leaves = false;
    change(gap, choice);
    const std::int32_t other =
        dice_.chance(0.5) ? pick_near(it.begin + 1 + dice_.below(it.end - it.begin)) : -1;
    if (other >= 0 && other != gap && !draft_.choice(other).leaves) {
      move_stay(other);
    }
    return;
  }
  if (kind < 10) {
    const std::int32_t step = dice_.step(2);
    choice.fetch += dice_.chance(0.5) ? step : -step;
  } else if (kind < 13) {
    choice.fetch = some_fetch(it);
  } else if (kind < 15 && it.kind == GapKind::inner) {
    const std::int32_t step = dice_.step(1);
    choice.leave =
        dice_.chance(0.4) ? it.earliest : choice.leave + (dice_.chance(0.5) ? step : -step);
  } else if (kind < 16) {
    choice.leave_rank = some_rank(choice.leave_rank);
  } else {
    choice.fetch_rank = some_rank(choice.fetch_rank);
  }
  change(gap, choice);
}

void Search::move_stay(std::int32_t gap) {
  const Gap& it = draft_.gaps()[at(gap)];
  if (!it.may_leave) {
    return;
  }
  GapChoice choice = draft_.usual(gap);
  choice.fetch = some_fetch(it);
  change(gap, choice);
  const std::int32_t other =
      dice_.chance(0.3) ? pick_near(it.begin + 1 + dice_.below(it.end - it.begin)) : -1;
  if (other >= 0 && other != gap && draft_.choice(other).leaves &&
      draft_.gaps()[at(other)].may_stay) {
    GapChoice stays = draft_.choice(other);
    stays.leaves = false;
    change(other, stays);
  }
}

// All gaps of one object the same way.
void Search::move_object(std::int32_t gap) {
  const std::int32_t object = draft_.gaps()[at(gap)].object;
  const bool leaves = !draft_.choice(gap).leaves;
  for (std::int32_t g = draft_.first_gap(object); g < draft_.end_gap(object); ++g) {
    const Gap& it = draft_.gaps()[at(g)];
    if (it.kind == GapKind::tail || draft_.choice(g).leaves == leaves ||
        !(leaves ? it.may_leave : it.may_stay)) {
      continue;
    }
    GapChoice choice = draft_.usual(g);
    choice.leaves = leaves;
    choice.fetch = some_fetch(it);
    change(g, choice);
  }
}

// All fetches near a position earlier or later by one step.
void Search::move_window(std::int32_t position) {
  const std::int32_t step = dice_.chance(0.5) ? 1 : -1;
  const std::int32_t first = std::max(0, position - dice_.step(10));
  const std::int32_t last = std::min(position, task_count(problem_) - 1);
  std::vector<std::int32_t> touched;
  for (std::int32_t k = first; k <= last; ++k) {
    for (const std::int32_t g : draft_.covering(k)) {
      const std::int32_t fetch = draft_.choice(g).fetch;
      if (draft_.choice(g).leaves && fetch == k) {
        touched.push_back(g);
      }
    }
  }
  for (const std::int32_t g : touched) {
    GapChoice choice = draft_.choice(g);
    choice.fetch += step;
    change(g, choice);
  }
}

}  // namespace parbuckle::chain
