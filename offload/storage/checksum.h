// The checksum of what the drive holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace parbuckle {

/// XXH3-64, seed 0 (Collet, xxHash 0.8): equal bytes have equal checksums on every machine. May be called from any thread;
/// allocates nothing. 64 bits: a damaged chunk passes with a chance of 2^-64.
std::uint64_t checksum(std::span<const std::byte> bytes);

/// "xxh3-64, widest vectors of this processor": for the run header.
std::string_view checksum_name();

}  // namespace parbuckle
