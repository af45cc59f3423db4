// How fast a folder's drive is, measured with the engine that will use it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "parbuckle/status.h"

namespace parbuckle {

struct DriveRates {
  double read_bytes_per_s = 0;  // alone
  double write_bytes_per_s = 0;
  double duplex_read_bytes_per_s = 0;  // while the other direction is busy too
  double duplex_write_bytes_per_s = 0;
};

/// Reads, writes and does both at once over a temporary file of `bytes` (multiple of 16 MiB), in transfers of 8 MiB.
Result<DriveRates> measure_drive(const std::filesystem::path& folder, std::int64_t bytes);

}  // namespace parbuckle
