#include "offload/plan/chain/starts.h"

#include <algorithm>
#include <limits>

namespace parbuckle::chain {
namespace {

class StartMaker {
 public:
  StartMaker(const Problem& problem,
             const Draft& empty,
             const StartRule& rule,
             const std::vector<std::int64_t>& begins)
      : problem_(problem), draft_(empty), rule_(rule), begins_(begins), choices_(empty.choices()) {
    fill_profile();
  }

  std::vector<GapChoice> make() {
    for (std::int32_t k = 0; k < task_count(problem_); ++k) {
      evict_for(k);
    }
    place_fetches();
    return choices_;
  }

 private:
  [[nodiscard]] std::int64_t bytes(const Gap& gap) const {
    return problem_.objects[at(gap.object)].bytes;
  }

  void add(std::int32_t first, std::int32_t last, std::int64_t bytes) {
    for (std::int32_t k = std::max(0, first); k <= std::min(last, task_count(problem_) - 1); ++k) {
      profile_[at(k)] += bytes;
    }
  }

  void fill_profile() {
    for (const Task& task : problem_.tasks) {
      std::int64_t need = task.workspace_bytes;
      for (const std::vector<std::int32_t>* list : {&task.inputs, &task.outputs}) {
        for (const std::int32_t object : *list) {
          need += problem_.objects[at(object)].bytes;
        }
      }
      profile_.push_back(need);
    }
    const std::int64_t floor = *std::max_element(profile_.begin(), profile_.end());
    const double free =
        static_cast<double>(std::max<std::int64_t>(0, problem_.fast_capacity - floor));
    limit_ = problem_.fast_capacity - static_cast<std::int64_t>(rule_.headroom * free);
    for (std::size_t g = 0; g < choices_.size(); ++g) {
      const Gap& gap = draft_.gaps()[g];
      if (gap.kind != GapKind::tail && !choices_[g].leaves) {
        add(gap.begin + 1, gap.end - 1, bytes(gap));
      }
    }
  }

  [[nodiscard]] double score(const Gap& gap, std::int32_t task) const {
    const std::int64_t end = gap.end < task_count(problem_) ? begins_[at(gap.end)] : begins_.back();
    const double distance = static_cast<double>(end - begins_[at(task)] + 1);
    const double length =
        static_cast<double>(end - (gap.begin >= 0 ? begins_[at(gap.begin)] : 0) + 1);
    const std::int64_t back = gap.written ? out_us(problem_, bytes(gap)) : 0;
    const double cost = static_cast<double>(in_us(problem_, bytes(gap)) + back);
    switch (rule_.eviction) {
      case Eviction::farthest:
      case Eviction::all:
        return distance;
      case Eviction::cheapest:
        return static_cast<double>(bytes(gap)) * length / cost;
      case Eviction::largest:
        return static_cast<double>(bytes(gap));
      case Eviction::clean_farthest:
        return distance / (gap.written ? 4.0 : 1.0);
    }
    return 0;
  }

  void evict_for(std::int32_t task) {
    while (rule_.eviction == Eviction::all || profile_[at(task)] > limit_) {
      std::int32_t best = -1;
      double best_score = 0;
      for (const std::int32_t g : draft_.covering(task)) {
        const Gap& gap = draft_.gaps()[at(g)];
        if (choices_[at(g)].leaves || gap.begin >= task) {
          continue;
        }
        const double value = score(gap, task);
        if (best < 0 || value > best_score) {
          best = g;
          best_score = value;
        }
      }
      if (best < 0) {
        return;
      }
      choices_[at(best)] = draft_.clamped(best, draft_.usual(best));
      const Gap& gap = draft_.gaps()[at(best)];
      add(gap.begin + 1, gap.end - 1, -bytes(gap));
    }
  }

  // Last position at whose end the task before it has ended by `time`.
  [[nodiscard]] std::int32_t position_at(std::int64_t time) const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), time);
    return static_cast<std::int32_t>(after - begins_.begin()) - 2;
  }

  // A fetch may move ahead of its last moment only as far as the tasks it would sit beside have room for it.
  void place(std::int32_t g, std::int32_t wanted) {
    const Gap& gap = draft_.gaps()[at(g)];
    GapChoice& choice = choices_[at(g)];
    std::int32_t position = gap.end - 1;
    const std::int32_t first = std::max(wanted, gap.first_fetch(choice.leave));
    while (position > first && profile_[at(position)] + bytes(gap) <= problem_.fast_capacity) {
      --position;
    }
    choice.fetch = position;
    choice = draft_.clamped(g, choice);
    add(choice.fetch + 1, gap.end - 1, bytes(gap));
  }

  void place_fetches() {
    std::vector<std::int32_t> order;
    for (std::size_t g = 0; g < choices_.size(); ++g) {
      if (choices_[g].leaves && draft_.gaps()[g].kind != GapKind::tail) {
        order.push_back(static_cast<std::int32_t>(g));
      }
    }
    std::stable_sort(order.begin(), order.end(), [this](std::int32_t a, std::int32_t b) {
      return draft_.gaps()[at(a)].end > draft_.gaps()[at(b)].end;
    });
    double lane_free = std::numeric_limits<double>::max();
    for (const std::int32_t g : order) {
      const Gap& gap = draft_.gaps()[at(g)];
      if (rule_.lead <= 0) {
        place(g, gap.end - 1);
        continue;
      }
      const std::int64_t due =
          gap.end < task_count(problem_) ? begins_[at(gap.end)] : begins_.back();
      lane_free = std::min(lane_free, static_cast<double>(due)) -
                  rule_.lead * static_cast<double>(in_us(problem_, bytes(gap)));
      place(g, position_at(static_cast<std::int64_t>(std::max(lane_free, -1.0))));
    }
  }

  const Problem& problem_;
  const Draft& draft_;
  StartRule rule_;
  const std::vector<std::int64_t>& begins_;
  std::vector<GapChoice> choices_;
  std::vector<std::int64_t> profile_;  // [task] bytes in fast while it runs
  std::int64_t limit_ = 0;
};

}  // namespace

std::vector<StartRule> start_rules() {
  std::vector<StartRule> rules;
  for (const Eviction eviction :
       {Eviction::farthest, Eviction::cheapest, Eviction::largest, Eviction::clean_farthest}) {
    for (const double headroom : {0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.85}) {
      for (const double lead : {0.0, 1.0, 1.2, 1.5, 2.0, 3.0, 6.0, 1000.0}) {
        rules.push_back({eviction, headroom, lead});
      }
    }
  }
  for (const double lead : {0.0, 1.0, 1.2, 1.5, 2.0, 3.0, 6.0, 1000.0}) {
    rules.push_back({Eviction::all, 0, lead});
  }
  return rules;
}

std::vector<GapChoice> make_start(const Problem& problem,
                                  const Draft& empty,
                                  const StartRule& rule,
                                  const std::vector<std::int64_t>& begins) {
  return StartMaker(problem, empty, rule, begins).make();
}

std::vector<GapChoice> make_demand_start(const Draft& empty) {
  std::vector<GapChoice> choices = empty.choices();
  for (std::int32_t g = 0; g < static_cast<std::int32_t>(choices.size()); ++g) {
    const Gap& gap = empty.gaps()[at(g)];
    if (gap.may_leave && gap.end > 0) {
      choices[at(g)] = empty.clamped(g, empty.usual(g));
    }
  }
  return choices;
}

}  // namespace parbuckle::chain
