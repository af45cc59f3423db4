// The one thread team of a CPU device: OpenMP's, because oneDNN of the distributions computes with the same one.
// Splitting work never changes bits: items are cut by shape, and whoever adds their results up does so in index order.
#pragma once

#include <cstdint>
#include <sched.h>

namespace parbuckle::cpu {

/// Borrowed callable, valid while the one it was made from lives.
class Body {
 public:
  template <class F>
  explicit Body(const F& f)
      : object_(&f), call_([](const void* object, std::int64_t index, int thread) {
          (*static_cast<const F*>(object))(index, thread);
        }) {}
  void operator()(std::int64_t index, int thread) const { call_(object_, index, thread); }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t, int);
};

enum class Deal {
  even,       // each thread takes one contiguous run of items: for items of equal cost
  first_free  // the next item goes to whoever is free, in ascending order: for items of unequal cost
};

/// Some of the cores that a thread may use, by their rank among those; count 0: all of them.
struct CoreRange {
  int first = 0;
  int count = 0;
};

class Team {
 public:
  /// The team's cores are `range` of those that the calling thread may use now. A team that has only some of them keeps to them
  /// even where it is one thread: another team has the rest.
  /// REQUIRES: threads >= 1.
  explicit Team(int threads, CoreRange range = {});

  [[nodiscard]] int threads() const { return threads_; }

  /// Tells OpenMP that regions opened by the calling thread, oneDNN's too, have this team's size; keeps the team's threads
  /// apart: the cores are dealt out in equal runs, one to each. Left to the kernel, a thread that waits passively is often woken
  /// on the core of the one that wakes it, and the two then share it (measured: half the speed). The process's main thread
  /// stays free, because threads that it starts later inherit its cores.
  void adopt() const;

  /// Calls body(index, thread) for each index in [0, count) once; returns when all are done. thread < threads().
  void run(std::int64_t count, Deal deal, Body body) const;

 private:
  /// Binds the calling thread to the cores of member `index`, unless it is there already.
  void settle(int index) const;

  int threads_;
  int cores_ = 0;
  bool apart_ = false;  // other cores are another team's
  cpu_set_t allowed_;
};

/// body(index, thread) for items of about equal cost.
template <class F>
void parallel_for(const Team& team, std::int64_t count, const F& body) {
  team.run(count, Deal::even, Body(body));
}

/// body(index, thread) for items of unequal cost; put the dearest first.
template <class F>
void parallel_for_uneven(const Team& team, std::int64_t count, const F& body) {
  team.run(count, Deal::first_free, Body(body));
}

/// body(begin, end) over pieces of [0, count) that together cover it; every piece but the last is a multiple of
/// `multiple`. Only for work whose elements do not depend on each other.
template <class F>
void parallel_ranges(const Team& team, std::int64_t count, std::int64_t multiple, const F& body) {
  const std::int64_t units = (count + multiple - 1) / multiple;
  const std::int64_t pieces = units < team.threads() ? units : team.threads();
  parallel_for(team, pieces, [&](std::int64_t piece, int /*thread*/) {
    const std::int64_t begin = units * piece / pieces * multiple;
    const std::int64_t end = units * (piece + 1) / pieces * multiple;
    body(begin, end < count ? end : count);
  });
}

}  // namespace parbuckle::cpu
