// What a commit names: one complete version of every persistent block, with the state of the run that belongs to it. Plain
// data, and its form as bytes.
//
// A block has a few *slots* in the file, extents of equal size side by side. A version of the block is one slot, how much of
// it was written (what lies beyond is zeros that were never stored) and a checksum for every chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parbuckle/status.h"
#include "parbuckle/units.h"

namespace parbuckle {

/// Bytes behind one checksum.
inline constexpr std::int64_t chunk_bytes = 1 * mib;

struct StoredBlock {
  std::string name;
  std::int64_t bytes = 0;   // whole pages
  std::int64_t offset = 0;  // of slot 0 in the file; slot k follows k * bytes later
  std::int32_t slots = 2;
  bool starts_zero = false;
  friend bool operator==(const StoredBlock&, const StoredBlock&) = default;
};

struct BlockVersion {
  std::int32_t slot = -1;    // -1: all zeros, stored nowhere
  std::int64_t written = 0;  // bytes; whole chunks, or all of the block
  std::vector<std::uint64_t> checksums;
  friend bool operator==(const BlockVersion&, const BlockVersion&) = default;
};

struct StoredVersion {
  std::int64_t step = 0;
  bool checkpoint = false;  // kept when newer versions are committed
  std::string run_state;    // the trainer's: counters, data cursor, what the run is
  std::vector<BlockVersion> blocks;
  friend bool operator==(const StoredVersion&, const StoredVersion&) = default;
};

struct CommitRecord {
  std::vector<StoredBlock> blocks;
  std::vector<StoredVersion> versions;  // newest first; empty before the first commit
  friend bool operator==(const CommitRecord&, const CommitRecord&) = default;
};

std::vector<std::byte> encode(const CommitRecord& record);
/// data_corrupt where the bytes are none that encode() gave.
Result<CommitRecord> decode(std::span<const std::byte> bytes);

/// An upper bound of encode()'s size with `versions` versions and run states of at most `run_state_bytes`.
std::int64_t encoded_bytes(const std::vector<StoredBlock>& blocks,
                           std::int64_t versions,
                           std::int64_t run_state_bytes);

}  // namespace parbuckle
