// The judge of chain plans: one deterministic event simulation, exact in time, bytes and peak.
// Same instant: transfer ends (inbound first), the task's end with its actions, the next task's start; a lane that
// became idle, or a queue head that waited for room, starts after each of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "offload/plan/chain/problem.h"

namespace parbuckle::chain {

enum class Fault : std::uint8_t {
  none,
  capacity,           // what is in fast at t = 0 exceeds it
  preplaced,          // not an object of the backing tier
  release_state,      // no usable fast copy
  offload_state,      // no usable fast copy
  offload_current,    // backing is current: a release does it
  offload_unneeded,   // nobody needs the bytes later
  prefetch_state,     // present, queued, or no backing copy
  prefetch_unneeded,  // nobody needs it in fast later
  produced_twice,
  stuck,     // a task waits for ever
  transfer,  // a transfer never starts
  end_state  // an object does not end where it must
};

struct Outcome {
  Fault fault = Fault::none;
  std::int32_t task = 0;     // where the fault showed: tasks ended so far
  std::int32_t object = -1;  // whose fault, if one object's
  std::int64_t makespan_us = 0;
  std::int64_t compute_end_us = 0;
  std::int64_t bytes_in = 0;
  std::int64_t bytes_out = 0;
  std::int64_t busy_in_us = 0;
  std::int64_t busy_out_us = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t events = 0;  // ends of tasks and transfers

  [[nodiscard]] bool feasible() const { return fault == Fault::none; }
};

class Simulator {
 public:
  static constexpr std::int32_t waits_for_room = -1;

  /// REQUIRES: `problem` outlives the simulator; ids in range.
  explicit Simulator(const Problem& problem);

  /// REQUIRES: plan.at has one entry per task and one for t = 0.
  Outcome run(const Plan& plan);

  /// Of the last run, per task that started: when.
  [[nodiscard]] const std::vector<std::int64_t>& starts() const { return starts_; }
  /// Of the last run, per task: the input it waited for last, or `waits_for_room`. Meaningless where it did not wait.
  [[nodiscard]] const std::vector<std::int32_t>& blockers() const { return blockers_; }

 private:
  enum class State : std::uint8_t { absent, queued, filling, live, waits_out, draining };
  struct Copy {
    State state = State::absent;
    bool held = false;       // backing has a copy (not: is being written)
    bool stale = false;      // the fast copy is newer than backing's
    bool exists = false;     // produced, or there from the start
    bool returning = false;  // a prefetch waits for the object's own write-back
  };
  struct Lane {
    std::vector<std::int32_t> queue;
    std::size_t head = 0;
    std::int32_t object = -1;  // on the lane now
    std::int64_t end = 0;
  };

  bool place_initially(const Plan& plan);
  void fire(const Actions& actions);
  void release(std::int32_t object);
  void offload(std::int32_t object);
  void prefetch(std::int32_t object);
  void start_heads();
  void try_start();
  void end_inbound();
  void end_outbound();
  void end_task(const Plan& plan);
  void close();
  void fail(Fault fault, std::int32_t object);
  void charge(std::int64_t bytes);

  const Problem& problem_;
  std::vector<std::int64_t> bytes_, in_us_, out_us_, need_;
  std::vector<std::int32_t> last_use_;
  std::vector<Copy> initial_, copies_;
  std::vector<std::int64_t> starts_;
  std::vector<std::int32_t> blockers_;
  Lane in_, out_;
  Outcome outcome_;
  std::int64_t now_ = 0;
  std::int64_t used_ = 0;
  std::int64_t initial_used_ = 0;
  std::int32_t task_ = 0;  // runs now or is next
  std::int64_t task_end_ = 0;
  bool running_ = false;
};

/// One run with the form of the plan checked first (positions, ids, one action per object and position, start mode).
/// Errors: invalid_argument, naming chain, position and object.
Result<Outcome> judge(const Problem& problem, const Plan& plan);

}  // namespace parbuckle::chain
