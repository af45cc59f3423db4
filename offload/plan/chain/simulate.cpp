#include "offload/plan/chain/simulate.h"

#include <algorithm>
#include <array>
#include <limits>

namespace parbuckle::chain {

Simulator::Simulator(const Problem& problem)
    : problem_(problem), last_use_(problem.objects.size(), -1), initial_(problem.objects.size()) {
  for (const Object& object : problem.objects) {
    bytes_.push_back(object.bytes);
    in_us_.push_back(in_us(problem, object.bytes));
    out_us_.push_back(out_us(problem, object.bytes));
    Copy& copy = initial_[bytes_.size() - 1];
    copy.exists = object.initial != Home::none;
    copy.held = object.initial == Home::backing;
    if (object.initial == Home::fast) {
      copy.state = State::live;
      initial_used_ += object.bytes;
    }
  }
  for (std::int32_t k = 0; k < task_count(problem); ++k) {
    const Task& task = problem.tasks[at(k)];
    std::int64_t need = task.workspace_bytes;
    for (const std::int32_t object : task.outputs) {
      need += bytes_[at(object)];
    }
    need_.push_back(need);
    for (const std::int32_t object : task.inputs) {
      last_use_[at(object)] = k;
    }
  }
  starts_.resize(problem.tasks.size());
  blockers_.resize(problem.tasks.size());
}

void Simulator::fail(Fault fault, std::int32_t object) {
  if (outcome_.fault == Fault::none) {
    outcome_.fault = fault;
    outcome_.object = object;
    outcome_.task = task_;
  }
}

void Simulator::charge(std::int64_t bytes) {
  used_ += bytes;
  outcome_.peak_bytes = std::max(outcome_.peak_bytes, used_);
}

bool Simulator::place_initially(const Plan& plan) {
  copies_ = initial_;
  outcome_ = {};
  now_ = 0;
  used_ = 0;
  task_ = 0;
  running_ = false;
  for (Lane* lane : {&in_, &out_}) {
    lane->queue.clear();
    lane->head = 0;
    lane->object = -1;
  }
  charge(initial_used_);
  for (const std::int32_t object : plan.preplaced) {
    Copy& copy = copies_[at(object)];
    if (!copy.held || copy.state != State::absent) {
      fail(Fault::preplaced, object);
    }
    copy.state = State::live;
    charge(bytes_[at(object)]);
  }
  if (used_ > problem_.fast_capacity) {
    fail(Fault::capacity, -1);
  }
  return outcome_.feasible();
}

void Simulator::release(std::int32_t object) {
  Copy& copy = copies_[at(object)];
  if (copy.state != State::live) {
    fail(Fault::release_state, object);
    return;
  }
  copy.state = State::absent;
  used_ -= bytes_[at(object)];
  if (copy.stale) {  // what backing has is old: nothing valid is left
    copy.stale = false;
    copy.held = false;
  }
}

void Simulator::offload(std::int32_t object) {
  Copy& copy = copies_[at(object)];
  if (copy.state != State::live) {
    fail(Fault::offload_state, object);
    return;
  }
  if (copy.held && !copy.stale) {
    fail(Fault::offload_current, object);
  }
  if (last_use_[at(object)] < task_ && problem_.objects[at(object)].final == Home::none) {
    fail(Fault::offload_unneeded, object);
  }
  copy.state = State::waits_out;
  out_.queue.push_back(object);
}

void Simulator::prefetch(std::int32_t object) {
  Copy& copy = copies_[at(object)];
  if (last_use_[at(object)] < task_ && problem_.objects[at(object)].final != Home::fast) {
    fail(Fault::prefetch_unneeded, object);
  }
  const bool leaving = copy.state == State::waits_out || copy.state == State::draining;
  if (leaving && !copy.returning) {
    copy.returning = true;
  } else if (copy.state == State::absent && copy.held) {
    copy.state = State::queued;
    in_.queue.push_back(object);
  } else {
    fail(Fault::prefetch_state, object);
  }
}

// REQUIRES: `task_` counts the tasks that have ended.
void Simulator::fire(const Actions& actions) {
  for (const std::int32_t object : actions.release) {
    release(object);
  }
  for (const std::int32_t object : actions.offload) {
    offload(object);
  }
  for (const std::int32_t object : actions.prefetch) {
    prefetch(object);
  }
  start_heads();
}

void Simulator::start_heads() {
  if (in_.object < 0 && in_.head < in_.queue.size()) {
    const std::int32_t object = in_.queue[in_.head];
    if (used_ + bytes_[at(object)] <= problem_.fast_capacity) {
      charge(bytes_[at(object)]);
      copies_[at(object)].state = State::filling;
      ++in_.head;
      in_.object = object;
      in_.end = now_ + in_us_[at(object)];
    }
  }
  if (out_.object < 0 && out_.head < out_.queue.size()) {
    const std::int32_t object = out_.queue[out_.head++];
    copies_[at(object)].state = State::draining;
    copies_[at(object)].held = false;
    out_.object = object;
    out_.end = now_ + out_us_[at(object)];
  }
}

void Simulator::try_start() {
  const Task& task = problem_.tasks[at(task_)];
  for (const std::int32_t object : task.inputs) {
    if (copies_[at(object)].state != State::live) {
      blockers_[at(task_)] = object;
      return;
    }
  }
  if (used_ + need_[at(task_)] > problem_.fast_capacity) {
    blockers_[at(task_)] = waits_for_room;
    return;
  }
  for (const std::int32_t object : task.outputs) {
    if (copies_[at(object)].exists) {
      fail(Fault::produced_twice, object);
    }
    copies_[at(object)].exists = true;
  }
  charge(need_[at(task_)]);
  starts_[at(task_)] = now_;
  task_end_ = now_ + task.duration_us;
  running_ = true;
}

void Simulator::end_inbound() {
  const std::int32_t object = in_.object;
  in_.object = -1;
  copies_[at(object)].state = State::live;
  outcome_.bytes_in += bytes_[at(object)];
  outcome_.busy_in_us += in_us_[at(object)];
  ++outcome_.events;
  start_heads();
}

void Simulator::end_outbound() {
  const std::int32_t object = out_.object;
  out_.object = -1;
  Copy& copy = copies_[at(object)];
  copy.state = State::absent;
  copy.held = true;
  copy.stale = false;
  used_ -= bytes_[at(object)];
  outcome_.bytes_out += bytes_[at(object)];
  outcome_.busy_out_us += out_us_[at(object)];
  ++outcome_.events;
  if (copy.returning) {
    copy.returning = false;
    copy.state = State::queued;
    in_.queue.push_back(object);
  }
  start_heads();
}

void Simulator::end_task(const Plan& plan) {
  const Task& task = problem_.tasks[at(task_)];
  used_ -= task.workspace_bytes;
  for (const std::int32_t object : task.outputs) {
    copies_[at(object)].state = State::live;
    copies_[at(object)].stale = true;
  }
  for (const std::int32_t object : task.updates) {
    copies_[at(object)].stale = true;
  }
  outcome_.compute_end_us = now_;
  ++outcome_.events;
  running_ = false;
  ++task_;
  fire(plan.at[at(task_)]);
}

void Simulator::close() {
  if (task_ < task_count(problem_)) {
    fail(Fault::stuck, blockers_[at(task_)]);
  }
  if (in_.head < in_.queue.size()) {
    fail(Fault::transfer, in_.queue[in_.head]);
  }
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    const Copy& copy = copies_[i];
    const Home home = problem_.objects[i].final;
    const bool in_backing = copy.held && !copy.stale;
    if ((home == Home::backing && !in_backing) ||
        (home == Home::fast && copy.state != State::live)) {
      fail(Fault::end_state, static_cast<std::int32_t>(i));
    }
  }
}

Outcome Simulator::run(const Plan& plan) {
  if (!place_initially(plan)) {
    return outcome_;
  }
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  fire(plan.at.front());
  while (outcome_.feasible()) {
    if (!running_ && task_ < task_count(problem_)) {
      try_start();
    }
    const std::int64_t in_end = in_.object >= 0 ? in_.end : never;
    const std::int64_t out_end = out_.object >= 0 ? out_.end : never;
    const std::int64_t next = std::min({in_end, out_end, running_ ? task_end_ : never});
    if (next == never) {
      close();
      break;
    }
    now_ = next;
    outcome_.makespan_us = now_;
    if (in_end == now_) {
      end_inbound();
    }
    if (out_end == now_) {
      end_outbound();
    }
    if (running_ && task_end_ == now_) {
      end_task(plan);
    }
  }
  return outcome_;
}

namespace {

Status check_form(const Problem& problem, const Plan& plan) {
  if (plan.at.size() != problem.tasks.size() + 1) {
    return invalid("chain " + problem.id + ": the plan has " + std::to_string(plan.at.size()) +
                   " positions, not " + std::to_string(problem.tasks.size() + 1));
  }
  if (!plan.preplaced.empty() && plan.at.front() != Actions{}) {
    return invalid("chain " + problem.id + ": a plan that preplaces objects acts at t = 0");
  }
  std::vector<std::size_t> seen(problem.objects.size(), 0);
  for (std::size_t slot = 0; slot < plan.at.size(); ++slot) {
    const Actions& actions = plan.at[slot];
    for (const std::vector<std::int32_t>* list :
         std::array{&actions.release, &actions.offload, &actions.prefetch}) {
      for (const std::int32_t object : *list) {
        if (object < 0 || at(object) >= seen.size() || seen[at(object)] == slot + 1) {
          return invalid("chain " + problem.id + ": object " + std::to_string(object) +
                         " is unknown or named twice after task " + std::to_string(slot) + " - 1");
        }
        seen[at(object)] = slot + 1;
      }
    }
  }
  return {};
}

}  // namespace

Result<Outcome> judge(const Problem& problem, const Plan& plan) {
  PARBUCKLE_TRY(check_form(problem, plan));
  return Simulator(problem).run(plan);
}

}  // namespace parbuckle::chain
