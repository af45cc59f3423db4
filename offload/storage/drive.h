// What a folder's drive is and what it can still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "parbuckle/status.h"

namespace parbuckle {

struct DriveSpace {
  std::int64_t capacity_bytes = 0;
  std::int64_t free_bytes = 0;     // for this user: free space, quota and file-size limit
  std::string limited_by;          // "free space", "user quota", "file-size limit (ulimit -f)"
  std::string memory_file_system;  // "tmpfs", "ramfs", "zram": not a drive at all; empty otherwise
};

/// not_found or io_error name the folder.
Result<DriveSpace> drive_space(const std::filesystem::path& folder);

/// Whether a pool of `bytes` can stand there. The message names both figures, the limit that rules, and for memory file
/// systems that they are memory.
Status check_drive(const std::filesystem::path& folder, std::int64_t bytes);

}  // namespace parbuckle
