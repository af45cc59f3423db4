// Which tasks there are and in what order, against the workload.
#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "offload/plan/validate_parts.h"

namespace parbuckle::validation {
namespace {

// Where tasks of one unit stand.
struct Place {
  std::int32_t first = -1;
  std::int32_t last = -1;
  void note(std::size_t task) {
    const auto position = static_cast<std::int32_t>(task);
    first = first < 0 ? position : first;
    last = position;
  }
};

using Key = std::tuple<TaskKind, std::int32_t, std::int32_t, std::int32_t>;  // unit, family, mb

struct Expected {
  const TaskTemplate* from = nullptr;
  std::int32_t position = 0;  // among the templates of its list
  bool found = false;
};

class TaskCheck {
 public:
  TaskCheck(const Workload& workload, const Plan& plan, Faults& faults)
      : workload_(workload), plan_(plan), faults_(faults) {}

  Templates run() {
    expect_all();
    for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
      match(i);
    }
    for (const auto& [key, list] : expected_) {
      for (const Expected& expected : list) {
        if (!expected.found) {
          faults_.push_back("a task of kind " + std::string(to_string(std::get<0>(key))) +
                            ", unit " + std::to_string(std::get<1>(key)) + ", family " +
                            workload_.families[expected.from->family.index()].name + " is missing");
        }
      }
    }
    step_order();
    gradient_order();
    micro_batch_order();
    update_order();
    return std::move(templates_);
  }

 private:
  [[nodiscard]] bool train() const { return workload_.phase == Phase::train; }

  void add(TaskKind kind,
           std::int32_t unit,
           const std::vector<TaskTemplate>& list,
           std::int32_t mb) {
    for (std::size_t t = 0; t < list.size(); ++t) {
      expected_[{kind, unit, list[t].family.value, mb}].push_back(
          {&list[t], static_cast<std::int32_t>(t), false});
    }
  }

  void expect_all() {
    add(TaskKind::begin, -1, workload_.begin, -1);
    const bool fused = train() && plan_.choice.window == Window::fused;
    add(fused ? TaskKind::turn : TaskKind::finish,
        -1,
        fused ? workload_.turn : workload_.finish,
        -1);
    for (std::size_t u = 0; u < workload_.units.size(); ++u) {
      const Unit& unit = workload_.units[u];
      const auto id = static_cast<std::int32_t>(u);
      const Alternative& chosen =
          unit.alternatives[static_cast<std::size_t>(plan_.choice.alternative[u])];
      for (std::int32_t mb = 0; mb < workload_.micro_batches; ++mb) {
        add(TaskKind::forward, id, chosen.forward, mb);
        if (train()) {
          add(TaskKind::backward, id, chosen.backward, mb);
        }
      }
      if (train()) {
        add(TaskKind::gradient_begin, id, unit.gradient_begin, -1);
        add(TaskKind::gradient_end, id, unit.gradient_end, -1);
      }
    }
    for (std::size_t u = 0; train() && u < workload_.updates.size(); ++u) {
      const TaskTemplate& task = workload_.updates[u].task;
      expected_[{TaskKind::update, -1, task.family.value, -1}].push_back(
          {&task, static_cast<std::int32_t>(u), false});
    }
  }

  [[nodiscard]] bool binds(const TaskOperand& operand, const Use& use, std::int32_t mb) const {
    const Allocation& a = plan_.allocations[operand.allocation.index()];
    const Span& span = workload_.spans[use.span.index()];
    if (a.span != use.span || operand.access != use.access ||
        a.micro_batch != (span.per_micro_batch ? mb : -1)) {
      return false;
    }
    if (use.block < 0) {
      return operand.offset == 0 && (a.block < 0 || span.blocks.size() == 1);
    }
    const Block& block = workload_.blocks[span.blocks[static_cast<std::size_t>(use.block)].index()];
    return a.block < 0 ? operand.offset == block.span_offset
                       : a.block == use.block && operand.offset == 0;
  }

  [[nodiscard]] bool same(const Task& task, const TaskTemplate& from) const {
    if (task.operands.size() != from.uses.size()) {
      return false;
    }
    for (std::size_t i = 0; i < from.uses.size(); ++i) {
      if (!binds(task.operands[i], from.uses[i], task.micro_batch)) {
        return false;
      }
    }
    return true;
  }

  void match(std::size_t i) {
    const Task& task = plan_.tasks[i];
    const std::int32_t unit = task.kind == TaskKind::update ? -1 : task.unit.value;
    const auto list = expected_.find({task.kind, unit, task.family.value, task.micro_batch});
    template_of_.push_back(-1);
    templates_.push_back(nullptr);
    if (list != expected_.end()) {
      for (Expected& expected : list->second) {
        if (!expected.found && same(task, *expected.from)) {
          expected.found = true;
          template_of_.back() = expected.position;
          templates_.back() = expected.from;
          return;
        }
      }
    }
    faults_.push_back("task " + std::to_string(i) + " (" + std::string(to_string(task.kind)) +
                      " of " + workload_.families[task.family.index()].name +
                      "): no task of the workload, or with other operands, or twice");
  }

  void expect(bool condition, const std::string& fault) {
    if (!condition) {
      faults_.push_back(fault);
    }
  }

  // begin .. forward .. turn .. backward .. finish
  void step_order() {
    std::map<TaskKind, Place> step;
    for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
      step[plan_.tasks[i].kind].note(i);
    }
    const auto before = [](const Place& a, const Place& b) {
      return a.last < 0 || b.first < 0 || a.last < b.first;
    };
    expect(before(step[TaskKind::begin], step[TaskKind::forward]),
           "begin is not before the forward");
    expect(before(step[TaskKind::forward], step[TaskKind::turn]), "turn is not after the forward");
    expect(before(step[TaskKind::backward], step[TaskKind::finish]) &&
               before(step[TaskKind::gradient_end], step[TaskKind::finish]),
           "finish is not after the backward");
  }

  // Of one unit: what gradient_begin changes is used by its backward tasks only later, and what gradient_end uses is changed by
  // them only before.
  void gradient_order() {
    using SpanOfUnit = std::pair<std::int32_t, std::int32_t>;
    std::map<SpanOfUnit, Place> used;
    std::map<SpanOfUnit, Place> changed;
    const auto each = [&](TaskKind kind, const auto& body) {
      for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
        const Task& task = plan_.tasks[i];
        for (std::size_t o = 0; task.kind == kind && o < task.operands.size(); ++o) {
          const SpanId span = plan_.allocations[task.operands[o].allocation.index()].span;
          body(i, SpanOfUnit(task.unit.value, span.value), task.operands[o].access);
        }
      }
    };
    each(TaskKind::backward, [&](std::size_t i, SpanOfUnit what, Access access) {
      used[what].note(i);
      if (access != Access::read) {
        changed[what].note(i);
      }
    });
    const auto fault = [](std::size_t i) {
      return "task " + std::to_string(i) + ": begins or ends a gradient in the middle of its use";
    };
    each(TaskKind::gradient_begin, [&](std::size_t i, SpanOfUnit what, Access access) {
      const bool late = used.contains(what) && used[what].first < static_cast<std::int32_t>(i);
      expect(access == Access::read || !late, fault(i));
    });
    each(TaskKind::gradient_end, [&](std::size_t i, SpanOfUnit what, Access /*access*/) {
      const bool early =
          changed.contains(what) && changed[what].last > static_cast<std::int32_t>(i);
      expect(!early, fault(i));
    });
  }

  // Of one micro-batch: forward ascending by (unit, template), then backward descending by unit. Of one backward
  // template: micro-batches ascending, so that gradients accumulate in one order.
  void micro_batch_order() {
    std::map<std::int32_t, std::tuple<bool, std::int32_t, std::int32_t>> last;
    std::map<std::tuple<TaskKind, std::int32_t, std::int32_t>, std::int32_t> last_micro_batch;
    for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
      const Task& task = plan_.tasks[i];
      const bool backward = task.kind == TaskKind::backward;
      if (!backward && task.kind != TaskKind::forward) {
        continue;
      }
      const std::int32_t unit = task.unit.value;
      const std::tuple<bool, std::int32_t, std::int32_t> now{
          backward, backward ? -unit : unit, template_of_[i]};
      const auto [position, fresh] = last.try_emplace(task.micro_batch, now);
      expect(fresh || position->second < now,
             "task " + std::to_string(i) + ": out of order for its micro-batch");
      position->second = now;
      const auto [newest, first] =
          last_micro_batch.try_emplace({task.kind, unit, template_of_[i]}, task.micro_batch);
      expect(first || newest->second < task.micro_batch,
             "task " + std::to_string(i) + ": micro-batches of unit " + std::to_string(unit) +
                 " do not ascend");
      newest->second = task.micro_batch;
    }
  }

  // All forward and backward tasks of a step see one version of a weight; an update sees a whole gradient.
  void update_order() {
    std::vector<Place> used(workload_.spans.size());
    std::vector<Place> changed(workload_.spans.size());
    for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
      for (const TaskOperand& operand : plan_.tasks[i].operands) {
        const std::size_t span = plan_.allocations[operand.allocation.index()].span.index();
        if (plan_.tasks[i].kind == TaskKind::update) {
          continue;
        }
        used[span].note(i);
        if (operand.access != Access::read) {
          changed[span].note(i);
        }
      }
    }
    const auto outside = [](const Place& place, std::int32_t task) {
      return place.first < 0 || task < place.first || task > place.last;
    };
    for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
      const Task& task = plan_.tasks[i];
      if (task.kind != TaskKind::update) {
        continue;
      }
      const auto position = static_cast<std::int32_t>(i);
      for (const TaskOperand& operand : task.operands) {
        const std::size_t span = plan_.allocations[operand.allocation.index()].span.index();
        const Place& place = operand.access == Access::read ? changed[span] : used[span];
        expect(outside(place, position),
               "task " + std::to_string(i) + ": updates in the middle of the uses of " +
                   workload_.spans[span].name);
      }
    }
  }

  const Workload& workload_;
  const Plan& plan_;
  Faults& faults_;
  std::map<Key, std::vector<Expected>> expected_;
  std::vector<std::int32_t> template_of_;  // per task: position among its templates
  Templates templates_;
};

}  // namespace

Templates check_tasks(const Workload& workload, const Plan& plan, Faults& faults) {
  return TaskCheck(workload, plan, faults).run();
}

}  // namespace parbuckle::validation
