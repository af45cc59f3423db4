// Threads that move ranges between a file descriptor and memory with pread and pwrite, many requests in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

#include "parbuckle/status.h"
#include "parbuckle/units.h"

#include "offload/storage/io_range.h"

namespace parbuckle {

/// The system calls, replaceable by tests that make them fail, fall short or hang.
struct FileCalls {
  std::function<ssize_t(int, void*, std::size_t, off_t)> pread;
  std::function<ssize_t(int, const void*, std::size_t, off_t)> pwrite;
  /// The operating system's own.
  static FileCalls system();
};

struct IoTeamOptions {
  int threads = 16;
  std::int64_t smallest_request_bytes = 1 * mib;
  std::int64_t largest_request_bytes = 4 * mib;
  double deadline_s = 60;   // without progress
  bool drop_cache = false;  // buffered descriptors: write back and drop the pages of each request
  FileCalls calls = FileCalls::system();
};

/// One team serves several callers; ranges that are in flight together share its threads evenly.
class IoTeam {
 public:
  /// `path` is for messages.
  static Result<std::unique_ptr<IoTeam>> create(std::string path, IoTeamOptions options);
  IoTeam(const IoTeam&) = delete;
  IoTeam& operator=(const IoTeam&) = delete;
  IoTeam(IoTeam&&) = delete;
  IoTeam& operator=(IoTeam&&) = delete;
  ~IoTeam();

  /// Blocks until the whole range has been moved. Short results are continued, interrupted ones repeated.
  /// io_error names file, offset and cause; after deadline_s without progress: file, offset and age of the oldest
  /// request, whose memory the kernel may still touch.
  Status move(const IoRange& range);

 private:
  class Core;
  explicit IoTeam(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  std::vector<std::thread> threads_;
  std::shared_ptr<Core>
      core_;  // shared with the threads: one that hangs in the kernel outlives the team
};

}  // namespace parbuckle
