#include "offload/plan/chain/draft.h"

#include <algorithm>

namespace parbuckle::chain {
namespace {

// Positions of uses per object: read, changed or produced.
std::vector<std::vector<std::int32_t>> uses_of(const Problem& problem) {
  std::vector<std::vector<std::int32_t>> uses(problem.objects.size());
  for (std::int32_t k = 0; k < task_count(problem); ++k) {
    for (const std::vector<std::int32_t>* list :
         {&problem.tasks[at(k)].inputs, &problem.tasks[at(k)].outputs}) {
      for (const std::int32_t object : *list) {
        if (uses[at(object)].empty() || uses[at(object)].back() != k) {
          uses[at(object)].push_back(k);
        }
      }
    }
  }
  return uses;
}

bool writes(const Task& task, std::int32_t object) {
  return std::find(task.outputs.begin(), task.outputs.end(), object) != task.outputs.end() ||
         std::find(task.updates.begin(), task.updates.end(), object) != task.updates.end();
}

void erase_value(std::vector<std::int32_t>& list, std::int32_t value) {
  const auto found = std::find(list.begin(), list.end(), value);
  if (found != list.end()) {
    list.erase(found);
  }
}

}  // namespace

Draft::Draft(const Problem& problem, Start start) : tasks_(task_count(problem)) {
  const std::vector<std::vector<std::int32_t>> uses = uses_of(problem);
  first_gap_.push_back(0);
  for (std::size_t object = 0; object < problem.objects.size(); ++object) {
    initial_.push_back(problem.objects[object].initial);
    final_.push_back(problem.objects[object].final);
    add_gaps(problem, start, static_cast<std::int32_t>(object), uses[object]);
    first_gap_.push_back(static_cast<std::int32_t>(gaps_.size()));
  }
  covering_.resize(at(tasks_));
  plan_.at.resize(at(tasks_ + 1));
  offload_gaps_.resize(at(tasks_ + 1));
  fetch_gaps_.resize(at(tasks_ + 1));
  for (std::int32_t g = 0; g < static_cast<std::int32_t>(gaps_.size()); ++g) {
    const Gap& gap = gaps_[at(g)];
    GapChoice choice = usual(g);
    choice.leaves = !gap.may_stay || (gap.kind == GapKind::tail && gap.may_leave);
    choices_.push_back(clamped(g, choice));
    for (std::int32_t k = std::max(0, gap.begin);
         gap.kind != GapKind::tail && gap.may_leave && k < gap.end;
         ++k) {
      covering_[at(k)].push_back(g);
    }
  }
  for (std::int32_t object = 0; object < static_cast<std::int32_t>(problem.objects.size());
       ++object) {
    add_actions(object);
  }
}

void Draft::add_gaps(const Problem& problem,
                     Start start,
                     std::int32_t object,
                     const std::vector<std::int32_t>& uses) {
  const Object& it = problem.objects[at(object)];
  const std::int32_t first_position = start == Start::cold ? -1 : 0;
  std::vector<std::int32_t> needs = uses;
  if (it.final == Home::fast) {
    needs.push_back(tasks_);
  }
  if (needs.empty() && it.initial != Home::fast) {
    return;
  }
  std::int32_t begin = -1;
  bool opening = it.initial == Home::backing;
  for (const std::int32_t need : needs) {
    if (begin >= 0 || it.initial != Home::none) {
      Gap gap{opening ? GapKind::opening : GapKind::inner, object, begin, need};
      gap.earliest = std::max(begin, first_position);
      gap.written = begin >= 0 && writes(problem.tasks[at(begin)], object);
      gap.may_leave = opening ? need > gap.earliest : gap.earliest <= need - 2;
      gap.may_stay = !opening || start == Start::warm;
      gaps_.push_back(gap);
    }
    opening = false;
    begin = need;
  }
  if (it.final != Home::fast) {
    Gap gap{GapKind::tail, object, begin, tasks_};
    gap.earliest = std::max(begin, first_position);
    gap.written = begin >= 0 && writes(problem.tasks[at(begin)], object);
    gap.may_stay = it.final == Home::none;
    gaps_.push_back(gap);
  }
}

GapChoice Draft::usual(std::int32_t gap) const {
  const Gap& it = gaps_[at(gap)];
  GapChoice choice;
  choice.leaves = true;
  choice.leave = it.earliest;
  choice.fetch = it.end - 1;
  choice.leave_rank = it.kind == GapKind::tail ? 16 * (tasks_ + 1) : 16 * it.end;
  choice.fetch_rank = 16 * it.end;
  return choice;
}

GapChoice Draft::clamped(std::int32_t gap, GapChoice choice) const {
  const Gap& it = gaps_[at(gap)];
  choice.leaves = (choice.leaves && it.may_leave) || !it.may_stay;
  if (it.kind != GapKind::opening) {
    choice.leave = std::max(it.earliest, std::min(choice.leave, it.last_leave()));
  }
  if (it.kind != GapKind::tail) {
    choice.fetch = std::max(it.first_fetch(choice.leave), std::min(choice.fetch, it.end - 1));
  }
  return choice;
}

void Draft::set(std::int32_t gap, const GapChoice& choice) {
  const std::int32_t object = gaps_[at(gap)].object;
  remove_actions(object);
  choices_[at(gap)] = clamped(gap, choice);
  add_actions(object);
}

void Draft::set_all(const std::vector<GapChoice>& choices) {
  for (Actions& actions : plan_.at) {
    actions.release.clear();
    actions.offload.clear();
    actions.prefetch.clear();
  }
  for (std::size_t slot = 0; slot < offload_gaps_.size(); ++slot) {
    offload_gaps_[slot].clear();
    fetch_gaps_[slot].clear();
  }
  plan_.preplaced.clear();
  choices_ = choices;
  for (std::size_t object = 0; object + 1 < first_gap_.size(); ++object) {
    add_actions(static_cast<std::int32_t>(object));
  }
}

void Draft::remove_actions(std::int32_t object) {
  for (std::int32_t g = first_gap(object); g < end_gap(object); ++g) {
    const Gap& gap = gaps_[at(g)];
    const GapChoice& choice = choices_[at(g)];
    if (!choice.leaves) {
      if (gap.kind == GapKind::opening) {
        erase_value(plan_.preplaced, object);
      }
      continue;
    }
    if (gap.kind != GapKind::opening) {
      const std::size_t slot = at(choice.leave + 1);
      erase_value(plan_.at[slot].release, object);
      erase_value(plan_.at[slot].offload, object);
      erase_value(offload_gaps_[slot], g);
    }
    if (gap.kind != GapKind::tail) {
      const std::size_t slot = at(choice.fetch + 1);
      erase_value(plan_.at[slot].prefetch, object);
      erase_value(fetch_gaps_[slot], g);
    }
  }
}

// An offload makes backing current; a later write makes it old again. Where backing is current a release does it.
void Draft::add_actions(std::int32_t object) {
  bool current = initial_[at(object)] == Home::backing;
  for (std::int32_t g = first_gap(object); g < end_gap(object); ++g) {
    const Gap& gap = gaps_[at(g)];
    current = current && !gap.written;
    if (!choices_[at(g)].leaves) {
      if (gap.kind == GapKind::opening) {
        plan_.preplaced.push_back(object);
      }
      continue;
    }
    if (gap.kind != GapKind::opening) {
      add_leave(g, current || (gap.kind == GapKind::tail && final_[at(object)] == Home::none));
      current = true;
    }
    if (gap.kind != GapKind::tail) {
      add_fetch(g);
    }
  }
}

void Draft::add_leave(std::int32_t gap, bool current) {
  const std::size_t slot = at(choices_[at(gap)].leave + 1);
  const std::int32_t object = gaps_[at(gap)].object;
  if (current) {
    plan_.at[slot].release.push_back(object);
    return;
  }
  std::vector<std::int32_t>& order = offload_gaps_[slot];
  const auto place =
      std::upper_bound(order.begin(), order.end(), gap, [this](std::int32_t a, std::int32_t b) {
        const std::int32_t x = choices_[at(a)].leave_rank;
        const std::int32_t y = choices_[at(b)].leave_rank;
        return x != y ? x < y : a < b;
      });
  std::vector<std::int32_t>& offload = plan_.at[slot].offload;
  offload.insert(offload.begin() + (place - order.begin()), object);
  order.insert(place, gap);
}

void Draft::add_fetch(std::int32_t gap) {
  const std::size_t slot = at(choices_[at(gap)].fetch + 1);
  std::vector<std::int32_t>& order = fetch_gaps_[slot];
  const auto place =
      std::upper_bound(order.begin(), order.end(), gap, [this](std::int32_t a, std::int32_t b) {
        const std::int32_t x = choices_[at(a)].fetch_rank;
        const std::int32_t y = choices_[at(b)].fetch_rank;
        return x != y ? x < y : a < b;
      });
  std::vector<std::int32_t>& prefetch = plan_.at[slot].prefetch;
  prefetch.insert(prefetch.begin() + (place - order.begin()), gaps_[at(gap)].object);
  order.insert(place, gap);
}

}  // namespace parbuckle::chain
