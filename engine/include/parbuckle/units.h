// Sizes as people write them. 1 KiB = 1024 bytes; "MB" and "GB" are powers of ten.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parbuckle/status.h"

namespace parbuckle {

inline constexpr std::int64_t kib = 1024;
inline constexpr std::int64_t mib = 1024 * kib;
inline constexpr std::int64_t gib = 1024 * mib;

/// Direct I/O and arenas work in pages: offsets and transfer sizes are multiples of this.
inline constexpr std::int64_t page_bytes = 4096;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// "700MiB", "1.5 GiB", "2GB", "4096" (bytes). Suffixes k, m, g, t alone mean KiB, MiB, GiB, TiB.
/// Fails on negative, fractional-byte overflow, unknown suffix or empty text.
Result<std::int64_t> parse_size(std::string_view text);

/// "480 MiB", "1.50 GiB", "640 B": three significant digits, binary units.
std::string format_size(std::int64_t bytes);

/// "1.23 s", "45.6 ms", "2 min 05 s", "3 h 12 min".
std::string format_seconds(double seconds);

}  // namespace parbuckle
