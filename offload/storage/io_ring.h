// Requests between one file and memory through io_uring, many in flight: a thread owns the ring, submits what all callers
// have asked for in one system call, and sleeps in the kernel until something has completed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "parbuckle/status.h"
#include "parbuckle/units.h"

#include "offload/storage/io_range.h"

namespace parbuckle {

struct IoRingOptions {
  int requests = 16;  // in flight, of each direction
  std::int64_t request_bytes = 1 * mib;
  double deadline_s = 60;  // without progress
  /// Tests: what the ring is told instead of `result`; nothing at all makes the request hang.
  std::function<std::optional<int>(const IoRange& request, int result)> tap;
};

/// Callers are served in the order in which they came, per direction; reads and writes take turns.
class IoRing {
 public:
  /// unsupported, with the reason, where the kernel has no io_uring for this process or lacks what is needed (5.11).
  /// `path` is for messages; the descriptor stays open as long as the ring.
  static Result<std::unique_ptr<IoRing>> create(std::string path,
                                                int descriptor,
                                                IoRingOptions options);
  IoRing(const IoRing&) = delete;
  IoRing& operator=(const IoRing&) = delete;
  IoRing(IoRing&&) = delete;
  IoRing& operator=(IoRing&&) = delete;
  ~IoRing();

  /// Requests that lie in `memory` spare the kernel the mapping of their pages. Once, before the first move().
  /// resource_exhausted where the limit on locked memory is too small: everything works as before.
  Status register_memory(std::span<std::byte> memory);

  /// Blocks until the whole range has been moved (its descriptor is not looked at). Short results are continued,
  /// interrupted ones repeated. io_error names file, offset and cause; after deadline_s without progress: file, offset and
  /// age of the oldest request, whose memory the kernel may still touch.
  Status move(const IoRange& range);

 private:
  class Core;
  explicit IoRing(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  std::shared_ptr<Core> core_;  // shared with the thread: one whose requests hang outlives the ring
  std::thread thread_;
};

}  // namespace parbuckle
