// What every engine moves, and how it says that it could not.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "parbuckle/status.h"

namespace parbuckle {

enum class IoDirection { read, write };

/// A range of a file and the memory it moves to or from.
struct IoRange {
  int descriptor = -1;
  IoDirection direction = IoDirection::read;
  std::byte* data = nullptr;  // only read from when writing
  std::int64_t offset = 0;    // in the file
  std::int64_t bytes = 0;
};

/// Where a request goes on after the drive has moved `moved` bytes beyond the first `done`: the end, or a whole page, since
/// direct I/O begins at one (the torn page at the end of a short result is moved again). An error where that is no progress.
Result<std::int64_t> after_short_result(const std::string& path,
                                        const IoRange& request,
                                        std::int64_t done,
                                        std::int64_t moved);

/// io_error: "<path>: read of 4096 bytes at offset 0 failed: <cause>".
Status io_failed(const std::string& path, const IoRange& request, const std::string& cause);

struct LateRequest {
  IoDirection direction = IoDirection::read;
  std::int64_t offset = 0;
  std::chrono::steady_clock::time_point since;
};

/// io_error that names file, offset and age.
Status deadline_missed(const std::string& path, const LateRequest& request, double deadline_s);

/// Tells whoever waits in slices when a deadline has passed. It counts slices instead of reading a clock, so that a process
/// that was stopped, and a machine that slept, have not missed anything: all of that time is one slice.
class Patience {
 public:
  explicit Patience(double deadline_s) : slice_(deadline_s / slices) {}
  [[nodiscard]] std::chrono::duration<double> slice() const { return slice_; }
  /// After a slice has passed in vain; `progress` is when something last happened.
  [[nodiscard]] bool lost(std::chrono::steady_clock::time_point progress) {
    passed_ = progress == seen_ ? passed_ + 1 : 1;
    seen_ = progress;
    return passed_ >= slices;
  }

 private:
  static constexpr int slices = 8;
  std::chrono::duration<double> slice_;
  std::chrono::steady_clock::time_point seen_;
  int passed_ = 0;
};

}  // namespace parbuckle
