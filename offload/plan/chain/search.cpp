#include "offload/plan/chain/search.h"

#include <algorithm>
#include <limits>

namespace parbuckle::chain {
namespace {

constexpr std::int64_t infeasible_cost = std::numeric_limits<std::int64_t>::max() / 4;

}  // namespace

std::uint64_t Dice::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

std::int32_t Dice::below(std::int32_t count) {
  return static_cast<std::int32_t>((next() >> 32) * static_cast<std::uint64_t>(count) >> 32);
}

double Dice::unit() {
  return static_cast<double>(next() >> 11) * 0x1p-53;
}

std::int32_t Dice::step(std::int32_t mean) {
  std::int32_t step = 1;
  while (step < 1000 && below(mean + 1) != 0) {
    ++step;
  }
  return step;
}

Search::Search(const Problem& problem, Start start, std::uint64_t seed)
    : problem_(problem), simulator_(problem), draft_(problem, start), dice_(seed) {
  best_.cost = std::numeric_limits<std::int64_t>::max();
  best_.outcome.fault = Fault::stuck;
}

Score Search::score() {
  Score score;
  score.outcome = simulator_.run(draft_.plan());
  const Outcome& it = score.outcome;
  events_ += it.events + 8;
  ++trials_;
  score.cost = it.feasible() ? it.makespan_us * 1024 + (it.busy_in_us + it.busy_out_us) * 3
                             : infeasible_cost - it.task * 1024;
  return score;
}

void Search::note_waits(const Outcome& outcome) {
  begins_ = simulator_.starts();
  waits_.clear();
  waited_us_ = 0;
  std::int64_t end = 0;
  for (std::int32_t k = 0; k < outcome.task || (outcome.feasible() && k < task_count(problem_));
       ++k) {
    const std::int64_t wait = begins_[at(k)] - end;
    if (wait > 0) {
      waited_us_ += wait;
      waits_.push_back({k, wait, simulator_.blockers()[at(k)]});
    }
    end = begins_[at(k)] + problem_.tasks[at(k)].duration_us;
  }
  if (!outcome.feasible()) {
    waits_.push_back({std::min(outcome.task, task_count(problem_) - 1),
                      std::max<std::int64_t>(1, waited_us_),
                      -1});
    waited_us_ += waits_.back().us;
  } else if (outcome.makespan_us > outcome.compute_end_us) {
    waits_.push_back({task_count(problem_), outcome.makespan_us - outcome.compute_end_us, -1});
    waited_us_ += waits_.back().us;
  }
}

void Search::remember(const Score& score) {
  const bool better = score.outcome.feasible() && best_.outcome.feasible()
                          ? std::pair(score.outcome.makespan_us, score.cost) <
                                std::pair(best_.outcome.makespan_us, best_.cost)
                          : score.cost < best_.cost;
  if (better) {
    best_ = score;
    best_choices_ = draft_.choices();
  }
}

Score Search::restart(const std::vector<GapChoice>& choices) {
  draft_.set_all(choices);
  current_ = score();
  note_waits(current_.outcome);
  remember(current_);
  return current_;
}

void Search::walk(std::int64_t until, double heat, std::int64_t enough) {
  const std::int64_t from = events_;
  const double span = static_cast<double>(std::max<std::int64_t>(1, until - from));
  while (events_ < until && (!best_.outcome.feasible() || best_.outcome.makespan_us > enough)) {
    changed_.clear();
    propose();
    if (changed_.empty()) {
      ++events_;
      continue;
    }
    const Score trial = score();
    const double left = 1.0 - static_cast<double>(events_ - from) / span;
    const double u = dice_.unit();
    const double share = heat * (0.02 + 0.98 * left * left) * u * u * u;
    const auto slack = static_cast<std::int64_t>(share * 1024.0 *
                                                 static_cast<double>(current_.outcome.makespan_us));
    if (trial.cost <= current_.cost + (current_.outcome.feasible() ? slack : 0)) {
      current_ = trial;
      note_waits(trial.outcome);
      remember(trial);
    } else {
      undo();
    }
  }
}

void Search::change(std::int32_t gap, const GapChoice& choice) {
  changed_.emplace_back(gap, draft_.choice(gap));
  draft_.set(gap, choice);
}

void Search::undo() {
  for (auto it = changed_.rbegin(); it != changed_.rend(); ++it) {
    draft_.set(it->first, it->second);
  }
}

}  // namespace parbuckle::chain
