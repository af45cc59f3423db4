#include "kernels/runtime/emulated/link_pacer.h"

#include <algorithm>

namespace parbuckle {

LinkPacer::Clock::time_point LinkPacer::take(std::int64_t bytes, double latency_s) {
  const std::chrono::duration<double> busy(static_cast<double>(bytes) / bytes_per_s_ + latency_s);
  const std::lock_guard lock(mutex_);
  free_at_ = std::max(free_at_, Clock::now()) + std::chrono::ceil<Clock::duration>(busy);
  return free_at_;
}

}  // namespace parbuckle
