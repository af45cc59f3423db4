// A drive in memory that fails as drives do, and as a seed says: every operation (open does not count) has a number, and what
// happens to operation n is a function of (seed, n) alone. One thread that repeats its calls therefore meets the same faults.
//
// It remembers what is durable. Written pages become durable with the first sync that starts after their write has returned; a
// crash keeps, of every page independently, its durable bytes or those of one of the writes since, or a sector-wise mixture.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parbuckle/units.h"

#include "offload/storage/block_file.h"

namespace parbuckle {

enum class Fault {
  short_move,   // a prefix of whole pages moves, then an error
  failed,       // EIO, nothing moves
  no_space,     // ENOSPC, writes only
  interrupted,  // EINTR handed on, nothing moves
  torn,         // writes only: some pages land, each by chance, then an error
  delayed,  // sleeps up to longest_delay_us, then all is well: reorders operations of several threads
  corrupt_read,   // success, with one bit of the answer flipped; the stored bytes are well
  corrupt_write,  // success, with one bit of what was stored flipped
  misdirected,    // writes only: success, and the bytes lie one to eight pages further on
  crash           // from here on every operation fails until restart()
};
const char* to_string(Fault fault);

struct FaultOptions {
  std::uint64_t seed = 0;
  std::int64_t crash_at =
      -1;  // operation number; -1: never. A write that crashes lands as unsynced pages do
  // Chances per operation that the fault can happen to.
  double short_move = 0;
  double failed = 0;
  double no_space = 0;
  double interrupted = 0;
  double torn = 0;
  double delayed = 0;
  double corrupt_read = 0;
  double corrupt_write = 0;
  double misdirected = 0;
  double torn_page = 0.25;  // of the unsynced pages that a crash changes: sector-wise mixtures
  std::int64_t longest_delay_us = 200;
  std::int64_t capacity_bytes = -1;  // preallocate and writes beyond it: ENOSPC
};

/// What was done to whom, to be printed beside a failure.
struct InjectedFault {
  std::int64_t operation = 0;
  Fault fault = Fault::failed;
  std::string where;  // "write pool +8192, 4096 bytes"
};

/// Any number of files by name; thread-safe. Files refer to the drive, which must outlive them.
class FaultDrive {
 public:
  explicit FaultDrive(const FaultOptions& options = {}) : options_(options) {}

  /// The same name gives the same bytes: that is how a file is opened again after restart().
  std::unique_ptr<BlockFile> open(const std::string& name);

  /// Power comes back: only what survived is there, all of it durable, and operations count from 0 under new options.
  /// Without a crash before it, this is one. Files opened earlier fail from now on.
  void restart(const FaultOptions& options);

  /// Flips one bit of what is stored, durable and newest alike.
  void flip_bit(const std::string& name, std::int64_t offset, int bit);

  [[nodiscard]] std::int64_t operations() const;
  [[nodiscard]] bool crashed() const;
  [[nodiscard]] std::vector<InjectedFault> injected() const;
  /// One line per injected fault, with the seed.
  [[nodiscard]] std::string report() const;

 private:
  friend class FaultFile;
  using Page = std::array<std::byte, page_bytes>;
  struct StoredPage {
    Page durable{};
    std::vector<Page> unsynced;  // oldest first; the last one is what a read sees
    bool sync_failed = false;    // a later sync does not save what a failed one was told to save
    [[nodiscard]] const Page& newest() const {
      return unsynced.empty() ? durable : unsynced.back();
    }
  };
  struct StoredFile {
    std::int64_t bytes = 0;
    std::map<std::int64_t, StoredPage> pages;  // by number; absent: zeros
  };
  enum class Kind { read, write, preallocate, sync };
  struct Operation {
    Kind kind = Kind::read;
    std::string name;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::int64_t generation = 0;
    std::int64_t number = 0;
    std::optional<Fault> fault;
    [[nodiscard]] std::string where() const;
  };

  Status begin(Operation& operation);
  Status read(Operation operation, std::span<std::byte> to);
  Status write(Operation operation, std::span<const std::byte> from);
  Status preallocate(Operation operation);
  Status sync(Operation operation);
  void choose_fault(Operation& operation);
  Status delay(const Operation& operation, std::unique_lock<std::mutex>& lock) const;
  void crash(const Operation& operation);
  void lose(StoredPage& page, std::uint64_t luck) const;
  void store(StoredFile& file, std::int64_t page, std::span<const std::byte> from);
  Status answer(const Operation& operation, const std::string& cause) const;
  [[nodiscard]] std::uint64_t draw(std::int64_t operation, std::uint64_t what) const;

  mutable std::mutex mutex_;
  FaultOptions options_;
  std::map<std::string, StoredFile> files_;
  std::vector<InjectedFault> injected_;
  std::int64_t operations_ = 0;
  std::int64_t generation_ = 0;  // restarts so far
  bool crashed_ = false;
};

}  // namespace parbuckle
