#include "offload/probe/process_memory.h"

#include <fstream>
#include <string>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

/// The number behind `key` in a file of "key: number ..." lines.
Result<std::int64_t> number_after(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    if (word == key) {
      std::int64_t value = 0;
      if (in >> value) {
        return value;
      }
    }
  }
  return io_error(std::string(file) + ": no number behind '" + key + "'");
}

}  // namespace

Result<ProcessMemory> process_memory() {
  ProcessMemory memory;
  PARBUCKLE_ASSIGN(const std::int64_t resident, number_after("/proc/self/status", "VmRSS:"));
  PARBUCKLE_ASSIGN(const std::int64_t peak, number_after("/proc/self/status", "VmHWM:"));
  memory.resident_bytes = resident * kib;
  memory.peak_bytes = peak * kib;
  return memory;
}

Result<ProcessIo> process_io() {
  ProcessIo io;
  PARBUCKLE_ASSIGN(io.read_bytes, number_after("/proc/self/io", "read_bytes:"));
  PARBUCKLE_ASSIGN(io.written_bytes, number_after("/proc/self/io", "write_bytes:"));
  return io;
}

}  // namespace parbuckle
