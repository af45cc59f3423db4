#include "offload/storage/io_range.h"

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

const char* verb(IoDirection direction) {
  return direction == IoDirection::read ? "read" : "write";
}

}  // namespace

Result<std::int64_t> after_short_result(const std::string& path,
                                        const IoRange& request,
                                        std::int64_t done,
                                        std::int64_t moved) {
  const std::int64_t reached = done + moved;
  const std::int64_t next =
      reached >= request.bytes ? request.bytes : reached / page_bytes * page_bytes;
  if (next <= done) {
    const bool reads = request.direction == IoDirection::read;
    return io_failed(path,
                     request,
                     "only " + std::to_string(reached) + " bytes moved, then no progress (" +
                         (reads ? "is the file shorter than it was?" : "is the disk full?") + ")");
  }
  return next;
}

Status io_failed(const std::string& path, const IoRange& request, const std::string& cause) {
  return io_error(path + ": " + verb(request.direction) + " of " + std::to_string(request.bytes) +
                  " bytes at offset " + std::to_string(request.offset) + " failed: " + cause);
}

Status deadline_missed(const std::string& path, const LateRequest& request, double deadline_s) {
  const std::chrono::duration<double> age = std::chrono::steady_clock::now() - request.since;
  return io_error(path + ": " + verb(request.direction) + " at offset " +
                  std::to_string(request.offset) + " has not returned after " +
                  format_seconds(age.count()) + " (deadline " + format_seconds(deadline_s) +
                  "): the drive does not answer");
}

}  // namespace parbuckle
