// What the kernel says this process uses.
#pragma once

#include <cstdint>

#include "parbuckle/status.h"

namespace parbuckle {

struct ProcessMemory {
  std::int64_t resident_bytes = 0;  // VmRSS
  std::int64_t peak_bytes = 0;      // VmHWM: the most it ever was
};
Result<ProcessMemory> process_memory();

/// Bytes that this process has moved from and to storage since it began, page cache hits not counted (/proc/self/io).
struct ProcessIo {
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;
};
Result<ProcessIo> process_io();

}  // namespace parbuckle
