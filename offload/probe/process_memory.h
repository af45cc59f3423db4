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

}  // namespace parbuckle
