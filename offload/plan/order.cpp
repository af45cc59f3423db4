#include "offload/plan/order.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace parbuckle {
namespace {

bool uses_span(const TaskTemplate& t, SpanId span) {
  return std::any_of(t.uses.begin(), t.uses.end(), [&](const Use& u) { return u.span == span; });
}

bool changes_span(const TaskTemplate& t, SpanId span) {
  return std::any_of(t.uses.begin(), t.uses.end(), [&](const Use& u) {
    return u.span == span && u.access != Access::read;
  });
}

bool uses_span(const std::vector<TaskTemplate>& templates, SpanId span) {
  return std::any_of(templates.begin(), templates.end(), [&](const TaskTemplate& t) {
    return uses_span(t, span);
  });
}

bool changes_span(const std::vector<TaskTemplate>& templates, SpanId span) {
  return std::any_of(templates.begin(), templates.end(), [&](const TaskTemplate& t) {
    return changes_span(t, span);
  });
}

using Stages = std::vector<std::vector<const TaskTemplate*>>;

// Each gradient_begin task with the first stage that uses what it changes, or with the stage of a task behind it in the list
// where that is earlier.
Stages begin_stages(const std::vector<TaskTemplate>& begin,
                    const std::vector<TaskTemplate>& backward) {
  const auto first_use = [&](const TaskTemplate& task) {
    const auto found =
        std::find_if(backward.begin(), backward.end(), [&](const TaskTemplate& stage) {
          return std::any_of(task.uses.begin(), task.uses.end(), [&](const Use& use) {
            return use.access != Access::read && uses_span(stage, use.span);
          });
        });
    return found == backward.end() ? std::size_t{0}
                                   : static_cast<std::size_t>(found - backward.begin());
  };
  Stages stages(std::max<std::size_t>(backward.size(), 1));
  std::size_t stage = stages.size() - 1;
  for (std::size_t i = begin.size(); i-- > 0;) {
    stage = std::min(stage, first_use(begin[i]));
    stages[stage].insert(stages[stage].begin(), &begin[i]);
  }
  return stages;
}

// Each gradient_end task with the last stage that changes what it uses, or with the stage of a task before it in the list where
// that is later.
Stages end_stages(const std::vector<TaskTemplate>& end, const std::vector<TaskTemplate>& backward) {
  Stages stages(std::max<std::size_t>(backward.size(), 1));
  std::size_t stage = 0;
  for (const TaskTemplate& task : end) {
    for (std::size_t s = stage; s < backward.size(); ++s) {
      if (std::any_of(task.uses.begin(), task.uses.end(), [&](const Use& use) {
            return changes_span(backward[s], use.span);
          })) {
        stage = s;
      }
    }
    stages[stage].push_back(&task);
  }
  return stages;
}

struct Group {
  std::int32_t first = 0;
  std::int32_t end = 0;
};

class Expansion {
 public:
  Expansion(const Workload& workload, const Choice& choice)
      : workload_(workload),
        choice_(choice),
        by_host_(workload.spans.size(), false),
        after_unit_(workload.units.size()) {
    for (const SpanId span : choice.host_updates) {
      by_host_[span.index()] = true;
    }
  }

  std::vector<ChainTask> run() {
    const bool train = workload_.phase == Phase::train;
    if (train) {
      assign_updates();
    }
    step_tasks(TaskKind::begin, workload_.begin);
    for (Group group{0, choice_.group}; group.first < workload_.micro_batches;
         group = {group.end, group.end + choice_.group}) {
      group.end = std::min(group.end, workload_.micro_batches);
      forward(group);
      if (train && choice_.window == Window::fused && group.end == workload_.micro_batches) {
        step_tasks(TaskKind::turn, workload_.turn);
      }
      if (train) {
        backward(group);
      }
    }
    if (!train || choice_.window != Window::fused) {
      step_tasks(TaskKind::finish, workload_.finish);
    }
    place_late_updates();
    return std::move(chain_);
  }

 private:
  const Alternative& alternative(std::size_t unit) const {
    return workload_.units[unit].alternatives[static_cast<std::size_t>(choice_.alternative[unit])];
  }

  bool is_gradient(SpanId span) const {
    const Role role = workload_.blocks[workload_.spans[span.index()].blocks.front().index()].role;
    return role == Role::gradient || role == Role::sparse_gradient;
  }

  void push(TaskKind kind,
            UnitId unit,
            std::size_t stage,
            const TaskTemplate& from,
            std::int32_t micro_batch) {
    ChainTask task{kind,
                   LaneKind::compute,
                   from.family,
                   unit,
                   static_cast<std::int32_t>(stage),
                   micro_batch,
                   {}};
    task.uses.reserve(from.uses.size());
    for (const Use& use : from.uses) {
      const bool per_micro_batch = workload_.spans[use.span.index()].per_micro_batch;
      task.uses.push_back({use.span, use.block, per_micro_batch ? micro_batch : -1, use.access});
    }
    chain_.push_back(std::move(task));
  }

  void push(const Update& update, UnitId unit, std::size_t stage) {
    push(TaskKind::update, unit, stage, update.task, -1);
    if (by_host_[update.span.index()]) {
      chain_.back().lane = LaneKind::host_compute;
    }
  }

  void step_tasks(TaskKind kind, const std::vector<TaskTemplate>& templates) {
    for (const TaskTemplate& t : templates) {
      push(kind, UnitId(), 0, t, -1);
    }
  }

  void stage_tasks(
      TaskKind kind, std::size_t unit, std::size_t stage, const TaskTemplate& from, Group group) {
    for (std::int32_t micro_batch = group.first; micro_batch < group.end; ++micro_batch) {
      push(kind, UnitId(unit), stage, from, micro_batch);
    }
  }

  void forward(Group group) {
    for (std::size_t unit = 0; unit < workload_.units.size(); ++unit) {
      const std::vector<TaskTemplate>& stages = alternative(unit).forward;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        stage_tasks(TaskKind::forward, unit, s, stages[s], group);
      }
    }
  }

  void backward(Group group) {
    for (std::size_t unit = workload_.units.size(); unit-- > 0;) {
      backward_unit(unit, group);
    }
  }

  void backward_unit(std::size_t unit, Group group) {
    const std::vector<TaskTemplate>& templates = alternative(unit).backward;
    const Stages begin = begin_stages(workload_.units[unit].gradient_begin, templates);
    const Stages end = end_stages(workload_.units[unit].gradient_end, templates);
    const auto once = [&](TaskKind kind, std::size_t stage, const TaskTemplate& task) {
      push(kind, UnitId(unit), stage, task, -1);
    };
    for (std::size_t s = 0; s < begin.size(); ++s) {
      for (std::size_t t = 0; group.first == 0 && t < begin[s].size(); ++t) {
        once(TaskKind::gradient_begin, s, *begin[s][t]);
      }
      if (s < templates.size()) {
        stage_tasks(TaskKind::backward, unit, s, templates[s], group);
      }
      if (group.end != workload_.micro_batches) {
        continue;
      }
      for (const TaskTemplate* const task : end[s]) {
        once(TaskKind::gradient_end, s, *task);
      }
      for (const std::size_t index : after_unit_[unit]) {
        const Update& update = workload_.updates[index];
        if (ready_stage(update.task, templates, end) == s) {
          push(update, UnitId(unit), s);
        }
      }
    }
  }

  // The stage after which nothing in the unit uses what an update changes or changes what it reads.
  static std::size_t ready_stage(const TaskTemplate& update,
                                 const std::vector<TaskTemplate>& templates,
                                 const Stages& end) {
    const auto meets = [&](const TaskTemplate& other) {
      return std::any_of(update.uses.begin(), update.uses.end(), [&](const Use& use) {
        return use.access == Access::read ? changes_span(other, use.span)
                                          : uses_span(other, use.span);
      });
    };
    for (std::size_t s = end.size(); s-- > 1;) {
      if (meets(templates[s]) ||
          std::any_of(end[s].begin(), end[s].end(), [&](const TaskTemplate* const task) {
            return meets(*task);
          })) {
        return s;
      }
    }
    return 0;
  }

  // The lowest unit (the last in the backward) for which `touches(unit)`; units.size() if none.
  template <class Touches>
  std::size_t lowest_unit(Touches touches) const {
    std::size_t unit = 0;
    while (unit < workload_.units.size() && !touches(unit)) {
      ++unit;
    }
    return unit;
  }

  std::size_t finishes_gradient(const Update& update) const {
    std::size_t lowest = workload_.units.size();
    for (const Use& use : update.task.uses) {
      if (!is_gradient(use.span)) {
        continue;
      }
      lowest = std::min(lowest, lowest_unit([&](std::size_t unit) {
                          return changes_span(alternative(unit).backward, use.span) ||
                                 changes_span(workload_.units[unit].gradient_begin, use.span) ||
                                 changes_span(workload_.units[unit].gradient_end, use.span);
                        }));
    }
    return lowest;
  }

  void assign_updates() {
    for (std::size_t i = 0; i < workload_.updates.size(); ++i) {
      const Update& update = workload_.updates[i];
      const std::size_t finishes =
          choice_.window == Window::fused ? finishes_gradient(update) : workload_.units.size();
      const std::size_t last_reader = lowest_unit(
          [&](std::size_t unit) { return uses_span(alternative(unit).backward, update.span); });
      if (finishes < workload_.units.size() && finishes == last_reader) {
        after_unit_[finishes].push_back(i);
      } else {
        late_.push_back(i);
      }
    }
  }

  // First task of the chain for which `counts(use)`, per span; chain_.size() if none.
  template <class Counts>
  std::vector<std::size_t> first_use(Counts counts) const {
    std::vector<std::size_t> first(workload_.spans.size(), chain_.size());
    for (std::size_t i = chain_.size(); i-- > 0;) {
      for (const ChainUse& use : chain_[i].uses) {
        if (counts(use)) {
          first[use.span.index()] = i;
        }
      }
    }
    return first;
  }

  // Updates outside the backward: at the end, or before the first use of their weight and before the first change of
  // what they read (a gradient that starts anew).
  void place_late_updates() {
    const std::vector<std::size_t> used = first_use([](const ChainUse&) { return true; });
    const std::vector<std::size_t> changed =
        first_use([](const ChainUse& use) { return use.access != Access::read; });
    std::vector<std::vector<std::size_t>> before(chain_.size() + 1);
    std::vector<UnitId> unit_of(workload_.updates.size());
    std::vector<std::size_t> stage_of(workload_.updates.size(), 0);
    for (const std::size_t i : late_) {
      const Update& update = workload_.updates[i];
      std::size_t place = used[update.span.index()];
      if (place < chain_.size()) {
        unit_of[i] = chain_[place].unit;
        stage_of[i] = static_cast<std::size_t>(chain_[place].stage);
      }
      for (const Use& use : update.task.uses) {
        place = std::min(place, is_gradient(use.span) ? changed[use.span.index()] : place);
      }
      before[choice_.window == Window::after ? chain_.size() : place].push_back(i);
    }
    std::vector<ChainTask> in_order = std::move(chain_);
    chain_.clear();
    for (std::size_t i = 0; i <= in_order.size(); ++i) {
      for (const std::size_t update : before[i]) {
        push(workload_.updates[update], unit_of[update], stage_of[update]);
      }
      if (i < in_order.size()) {
        chain_.push_back(std::move(in_order[i]));
      }
    }
  }

  const Workload& workload_;
  const Choice& choice_;
  std::vector<bool> by_host_;  // per span of a weight
  std::vector<ChainTask> chain_;
  std::vector<std::vector<std::size_t>> after_unit_;  // updates after this unit's gradient_end
  std::vector<std::size_t> late_;                     // all other updates
};

}  // namespace

std::vector<ChainTask> expand(const Workload& workload, const Choice& choice) {
  return Expansion(workload, choice).run();
}

}  // namespace parbuckle
