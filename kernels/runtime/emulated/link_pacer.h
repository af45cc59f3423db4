// Makes copies as slow as a link: a token bucket whose callers sleep.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace parbuckle {

/// One direction of a link, or both where they share an engine. Callers are served first come, first served.
class LinkPacer {
 public:
  using Clock = std::chrono::steady_clock;

  /// REQUIRES: bytes_per_s > 0.
  explicit LinkPacer(double bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  /// Takes the link for `bytes` after everything that was taken before; returns when those bytes have passed.
  Clock::time_point take(std::int64_t bytes, double latency_s = 0);

 private:
  const double bytes_per_s_;
  std::mutex mutex_;
  Clock::time_point free_at_{};
};

}  // namespace parbuckle
