#include "cpu/parallel/team.h"

#include <cstddef>
#include <omp.h>
#include <unistd.h>

namespace parbuckle::cpu {
namespace {

/// Where a thread was bound last: spares a system call per region.
struct Seat {
  int index = -1;
  int threads = 0;
};
thread_local Seat seat;

}  // namespace

Team::Team(int threads, CoreRange range) : threads_(threads), allowed_{} {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof(all), &all) != 0) {
    return;
  }
  const int end = range.count > 0 ? range.first + range.count : CPU_COUNT(&all);
  int rank = 0;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) {
      if (rank >= range.first && rank < end) {
        CPU_SET(cpu, &allowed_);
      }
      ++rank;
    }
  }
  cores_ = CPU_COUNT(&allowed_);
  apart_ = cores_ > 0 && cores_ < rank;
}

void Team::settle(int index) const {
  if (seat.index == index && seat.threads == threads_) {
    return;
  }
  seat = {index, threads_};
  const bool alone = (threads_ == 1 && !apart_) || threads_ > cores_;
  const bool main_thread = index == 0 && gettid() == getpid();
  if (alone || main_thread) {
    return;
  }
  cpu_set_t mine;
  CPU_ZERO(&mine);
  const int first = cores_ * index / threads_;
  const int end = cores_ * (index + 1) / threads_;
  int rank = 0;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE && rank < end; ++cpu) {
    if (CPU_ISSET(cpu, &allowed_)) {
      if (rank >= first) {
        CPU_SET(cpu, &mine);
      }
      ++rank;
    }
  }
  // Where it is refused, the kernel decides as before.
  (void)sched_setaffinity(0, sizeof(mine), &mine);
}

void Team::adopt() const {
  if (omp_get_max_threads() != threads_) {
    omp_set_num_threads(threads_);
  }
  if (omp_get_dynamic() != 0) {
    omp_set_dynamic(0);
  }
  if (seat.index != 0 || seat.threads != threads_) {
#pragma omp parallel num_threads(threads_)
    settle(omp_get_thread_num());
  }
}

void Team::run(std::int64_t count, Deal deal, Body body) const {
  if (threads_ == 1 || count <= 1) {
    for (std::int64_t index = 0; index < count; ++index) {
      body(index, 0);
    }
    return;
  }
  // Always the full team: libgomp rebuilds its pool of threads whenever the size changes.
  if (deal == Deal::even) {
#pragma omp parallel num_threads(threads_)
    {
      const int thread = omp_get_thread_num();
      settle(thread);  // OpenMP may have replaced a thread since the team was adopted
#pragma omp for schedule(static)
      for (std::int64_t index = 0; index < count; ++index) {
        body(index, thread);
      }
    }
    return;
  }
#pragma omp parallel num_threads(threads_)
  {
    const int thread = omp_get_thread_num();
    settle(thread);
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t index = 0; index < count; ++index) {
      body(index, thread);
    }
  }
}

}  // namespace parbuckle::cpu
