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

/// Moves [begin, end) of the extent; seconds it took, or the failure.
Result<double> move(Pool& pool,
                    ExtentId extent,
                    Direction direction,
                    std::int64_t begin,
                    std::int64_t end,
                    std::span<std::byte> buffer) {
  const auto start = Clock::now();
  for (std::int64_t at = begin; at < end; at += transfer_bytes) {
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
  PARBUCKLE_ASSIGN(const ExtentId extent, pool->extent("probe", bytes, false));
  PARBUCKLE_ASSIGN(const Arena arena, Arena::create({.bytes = 2 * transfer_bytes, .lock = false}));
  const std::span<std::byte> first(arena.data(), static_cast<std::size_t>(transfer_bytes));
  const std::span<std::byte> second(arena.data() + transfer_bytes,
                                    static_cast<std::size_t>(transfer_bytes));
  std::fill(first.begin(), first.end(), std::byte{0x5A});

  const auto amount = static_cast<double>(bytes);
  PARBUCKLE_TRY(
      move(*pool, extent, Direction::write, 0, bytes, first).status());  // blocks are allocated now
  PARBUCKLE_ASSIGN(const double write_s, move(*pool, extent, Direction::write, 0, bytes, first));
  PARBUCKLE_ASSIGN(const double read_s, move(*pool, extent, Direction::read, 0, bytes, first));

  const std::int64_t half = bytes / 2;
  Result<double> writing = 0.0;
  std::thread writer([&] { writing = move(*pool, extent, Direction::write, half, bytes, second); });
  const Result<double> reading = move(*pool, extent, Direction::read, 0, half, first);
  writer.join();
  PARBUCKLE_TRY(writing.status());
  PARBUCKLE_TRY(reading.status());
  return DriveRates{.read_bytes_per_s = amount / read_s,
                    .write_bytes_per_s = amount / write_s,
                    .duplex_read_bytes_per_s = static_cast<double>(half) / *reading,
                    .duplex_write_bytes_per_s = static_cast<double>(half) / *writing};
}

}  // namespace parbuckle
