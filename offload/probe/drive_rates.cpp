#include "offload/probe/drive_rates.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <thread>

#include "parbuckle/units.h"

#include "offload/storage/pool.h"
#include "offload/tier/arena.h"

namespace parbuckle {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t transfer_bytes = 8 * mib;

enum class Direction { read, write };

/// Moves all of the extent; seconds it took, or the failure.
Result<double> move(Pool& pool,
                    ExtentId extent,
                    std::int64_t bytes,
                    Direction direction,
                    std::span<std::byte> buffer) {
  const auto start = Clock::now();
  for (std::int64_t at = 0; at < bytes; at += transfer_bytes) {
    if (direction == Direction::read) {
      PARBUCKLE_TRY(pool.read(extent, at, buffer).status());
    } else {
      PARBUCKLE_TRY(pool.write(extent, at, buffer));
    }
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Result<DriveRates> measure_drive(const std::filesystem::path& folder, std::int64_t bytes) {
  PARBUCKLE_ASSIGN(const auto pool, Pool::create({.folder = folder, .bytes = bytes}));
  // Two halves: an extent is read or written by one thread at a time.
  const std::int64_t half = bytes / 2;
  PARBUCKLE_ASSIGN(const ExtentId front, pool->extent("probe.front", half, false));
  PARBUCKLE_ASSIGN(const ExtentId back, pool->extent("probe.back", half, false));
  PARBUCKLE_ASSIGN(const Arena arena, Arena::create({.bytes = 2 * transfer_bytes, .lock = false}));
  const std::span<std::byte> first(arena.data(), static_cast<std::size_t>(transfer_bytes));
  const std::span<std::byte> second(arena.data() + transfer_bytes,
                                    static_cast<std::size_t>(transfer_bytes));
  std::fill(first.begin(), first.end(), std::byte{0x5A});

  const auto amount = static_cast<double>(bytes);
  const auto move_both = [&](Direction direction) -> Result<double> {
    PARBUCKLE_ASSIGN(const double front_s, move(*pool, front, half, direction, first));
    PARBUCKLE_ASSIGN(const double back_s, move(*pool, back, half, direction, first));
    return front_s + back_s;
  };
  PARBUCKLE_TRY(move_both(Direction::write).status());  // blocks are allocated now
  PARBUCKLE_ASSIGN(const double write_s, move_both(Direction::write));
  PARBUCKLE_ASSIGN(const double read_s, move_both(Direction::read));

  Result<double> writing = 0.0;
  std::thread writer([&] { writing = move(*pool, back, half, Direction::write, second); });
  const Result<double> reading = move(*pool, front, half, Direction::read, first);
  writer.join();
  PARBUCKLE_TRY(writing.status());
  PARBUCKLE_TRY(reading.status());
  const double beside_read = static_cast<double>(half) / *reading;
  const double beside_write = static_cast<double>(half) / *writing;
  // Where a stall hit the run alone: no direction is slower alone than beside the other, and bounds rest on that.
  return DriveRates{.read_bytes_per_s = std::max(amount / read_s, beside_read),
                    .write_bytes_per_s = std::max(amount / write_s, beside_write),
                    .duplex_read_bytes_per_s = beside_read,
                    .duplex_write_bytes_per_s = beside_write};
}

}  // namespace parbuckle
