#include "offload/plan/chain/problem.h"

#include <algorithm>

namespace parbuckle::chain {

Problem with_recompute(const Problem& problem, const std::vector<std::int32_t>& chosen) {
  Problem result = problem;
  result.recompute.clear();
  result.tasks.clear();
  std::vector<Task> tasks = problem.tasks;
  for (const std::int32_t index : chosen) {
    const Recompute& taken = problem.recompute[at(index)];
    std::erase(tasks[at(taken.producer)].outputs, taken.object);
  }
  for (std::int32_t k = 0; k < task_count(problem); ++k) {
    for (const std::int32_t index : chosen) {
      const Recompute& taken = problem.recompute[at(index)];
      if (taken.before == k) {
        result.tasks.push_back({"r" + problem.objects[at(taken.object)].name,
                                taken.duration_us,
                                taken.inputs,
                                {taken.object},
                                {},
                                taken.workspace_bytes});
      }
    }
    result.tasks.push_back(std::move(tasks[at(k)]));
  }
  return result;
}

namespace {

// Loads that must have happened before task k can end, then the rest of the durations.
std::int64_t loads_then_rest(const Problem& problem, std::int64_t durations) {
  std::vector<bool> loaded(problem.objects.size(), false);
  std::int64_t loads = 0;
  std::int64_t best = durations;
  for (const Task& task : problem.tasks) {
    for (const std::int32_t object : task.inputs) {
      const Object& it = problem.objects[at(object)];
      if (it.initial == Home::backing && !loaded[at(object)]) {
        loaded[at(object)] = true;
        loads += in_us(problem, it.bytes);
      }
    }
    best = std::max(best, loads + durations);
    durations -= task.duration_us;
  }
  return best;
}

// What task k or a later one changes last and must end in backing leaves only after the end of task k.
std::int64_t work_then_writes(const Problem& problem, std::int64_t durations) {
  std::vector<bool> counted(problem.objects.size(), false);
  std::int64_t writes = 0;
  std::int64_t best = durations;
  for (auto task = problem.tasks.rbegin(); task != problem.tasks.rend(); ++task) {
    for (const std::vector<std::int32_t>* changed : {&task->outputs, &task->updates}) {
      for (const std::int32_t object : *changed) {
        const Object& it = problem.objects[at(object)];
        if (it.final == Home::backing && !counted[at(object)]) {
          counted[at(object)] = true;
          writes += out_us(problem, it.bytes);
        }
      }
    }
    best = std::max(best, durations + writes);
    durations -= task->duration_us;
  }
  return best;
}

}  // namespace

std::int64_t lower_bound_us(const Problem& problem, Start start) {
  std::int64_t durations = 0;
  for (const Task& task : problem.tasks) {
    durations += task.duration_us;
  }
  const std::int64_t writes = work_then_writes(problem, durations);
  return start == Start::cold ? std::max(writes, loads_then_rest(problem, durations)) : writes;
}

}  // namespace parbuckle::chain
