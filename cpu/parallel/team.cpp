#include "cpu/parallel/team.h"

#include <omp.h>

namespace parbuckle::cpu {

void Team::adopt() const {
  if (omp_get_max_threads() != threads_) {
    omp_set_num_threads(threads_);
  }
  if (omp_get_dynamic() != 0) {
    omp_set_dynamic(0);
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
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (std::int64_t index = 0; index < count; ++index) {
      body(index, omp_get_thread_num());
    }
    return;
  }
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 1)
  for (std::int64_t index = 0; index < count; ++index) {
    body(index, omp_get_thread_num());
  }
}

}  // namespace parbuckle::cpu
