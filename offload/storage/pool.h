// The NVMe tier: one preallocated file that holds an extent per block. The map from block to offset is here and nowhere
// else, and so are the versions of a block.
//
// Two kinds of extents. *Spilled* blocks live inside a step and have one place. *Stored* blocks are what survives: they have
// several slots; the newest contents are in the *working* slot, and a slot that a committed version or a kept checkpoint names
// is never written: the first write to a block after a commit goes to a free slot, further ones overwrite that. Committing
// before the next step (durability `step`) or every so often (`checkpoint`) is the caller's choice; the disk it takes is the
// same. commit_log.h says how a commit becomes durable.
//
// Every chunk has a checksum, made when it is written and compared whenever it is read, by the thread that moves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/ids.h"
#include "offload/storage/block_file.h"
#include "offload/storage/commit_log.h"
#include "offload/storage/open_file.h"
#include "offload/storage/run_directory.h"

namespace parbuckle {

using ExtentId = Id<struct ExtentTag>;

struct PoolOptions {
  std::filesystem::path folder;  // exists, on a drive
  std::int64_t bytes = 0;        // multiple of page_bytes
  OpenFileOptions file;
};

/// What a store must hold.
struct StoreLayout {
  std::vector<StoredBlock> blocks;   // offsets are assigned by the pool
  std::int64_t spill_bytes = 0;      // for blocks that live inside a step
  std::int64_t checkpoints = 0;      // older versions that are kept besides the newest
  std::int64_t run_state_bytes = 0;  // the longest run state of a version
};

/// Bytes of the file.
std::int64_t store_bytes(const StoreLayout& layout);

/// read and write may be called from several threads, on different extents at a time; everything else between steps.
class Pool {
 public:
  /// Checks folder, free space, quota and file-size limit, then locks a run directory and reserves the whole file.
  /// Leaves nothing behind when it fails, nor when it ends.
  static Result<std::unique_ptr<Pool>> create(const PoolOptions& options);
  /// A pool without stored blocks in a file that someone else made: `bytes` of it.
  static std::unique_ptr<Pool> over(std::unique_ptr<BlockFile> file, std::int64_t bytes);

  /// A store in a new file: reserves the whole file and formats its log.
  static Result<std::unique_ptr<Pool>> format(std::unique_ptr<BlockFile> file,
                                              const StoreLayout& layout);
  /// The store that a run left: its newest whole version, or that of `step` where that was kept (-1: newest). Its blocks and
  /// slots are as they were made; the file is reserved anew for `spill_bytes`. Errors are those of CommitLog::recover(), and
  /// not_found where nothing was committed yet.
  static Result<std::unique_ptr<Pool>> recover(std::unique_ptr<BlockFile> file,
                                               std::int64_t spill_bytes,
                                               std::int64_t step = -1);

  /// The extent of this name: a stored block, or a spilled one made at the first call, `bytes` rounded up to whole pages. A
  /// block that starts as zeros is virtual until it is first written: reading it moves nothing.
  /// resource_exhausted where the pool is full; internal where the name has an extent of another size.
  Result<ExtentId> extent(std::string_view name, std::int64_t bytes, bool starts_zero);

  /// From a chunk's beginning to the end of what was written there, or over whole chunks. Returns the bytes that really came
  /// from the drive: what was never written is zeros if the extent starts as zeros or `allow_unwritten`, and an internal error
  /// that names the block otherwise. data_corrupt, naming block, path and offset, where a checksum does not match.
  Result<std::int64_t> read(ExtentId extent,
                            std::int64_t offset,
                            std::span<std::byte> to,
                            bool allow_unwritten = false);
  /// From a chunk's beginning; whole pages, and for stored blocks whole chunks or up to the end. A gap between what was
  /// written before and `offset` is filled with zeros.
  Status write(ExtentId extent, std::int64_t offset, std::span<const std::byte> from);

  /// Makes the working contents of all stored blocks one committed version. `checkpoint`: it is kept while it is among the
  /// newest `checkpoints` ones that are kept besides the newest version. internal where a block was not written whole.
  Status commit(std::int64_t step, std::string run_state, bool checkpoint);
  /// Newest first; empty where nothing was committed.
  [[nodiscard]] const std::vector<StoredVersion>& versions() const { return versions_; }
  /// Whether the extent's contents differ from what the newest version names.
  [[nodiscard]] bool changed(ExtentId extent) const;
  /// How many older checkpoints are kept; at most what the slots allow.
  void keep_checkpoints(std::int64_t count);

  /// Where most reads and writes will point, once and before the first of them (BlockFile::register_memory).
  void register_memory(std::span<std::byte> memory) { file_->register_memory(memory); }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t used_bytes() const { return used_; }
  [[nodiscard]] std::int64_t record_bytes() const { return log_ ? log_->record_bytes() : 0; }
  [[nodiscard]] std::string_view engine() const { return file_->engine(); }
  [[nodiscard]] const std::string& path() const { return file_->path(); }
  /// Of the file's engine and of the log, a line each.
  [[nodiscard]] std::vector<std::string> warnings() const;

 private:
  struct Chunk {
    std::uint64_t checksum = 0;
    std::int64_t covered = 0;  // bytes from the chunk's beginning
  };
  struct Extent {
    std::string name;
    std::int64_t offset = 0;  // of slot 0
    std::int64_t bytes = 0;   // of one slot
    std::int32_t slots = 1;
    std::int32_t working = 0;  // slot with the newest contents
    std::uint64_t taken = 0;   // bit k: slot k belongs to a committed version
    std::int64_t written = 0;  // [0, written) of the working slot holds what was written
    bool starts_zero = false;
    bool zero_tail = false;  // beyond `written` zeros are meant
    std::vector<Chunk> chunks;
    [[nodiscard]] std::int64_t place() const { return offset + working * bytes; }
  };

  Pool() = default;
  [[nodiscard]] Status check(const Extent& extent, std::int64_t offset, std::size_t bytes) const;
  Status verify(const Extent& extent, std::int64_t offset, std::span<const std::byte> data) const;
  Status take_free_slot(Extent& extent, std::int64_t offset) const;
  Status fill_gap(Extent& extent, std::int64_t end);
  Status put(Extent& extent, std::int64_t offset, std::span<const std::byte> from);
  ExtentId add(Extent extent);
  Result<BlockVersion> version_of(const Extent& extent) const;
  void adopt(Extent& extent, const BlockVersion& version) const;
  void mark_taken();

  std::unique_ptr<RunDirectory> run_;  // outlives file_
  std::unique_ptr<BlockFile> file_;
  std::int64_t bytes_ = 0;
  std::int64_t used_ = 0;
  std::vector<Extent> extents_;  // stored blocks first, like blocks_
  std::map<std::string, ExtentId, std::less<>> by_name_;

  std::optional<CommitLog> log_;  // empty: nothing is stored here
  std::vector<StoredBlock> blocks_;
  std::vector<StoredVersion> versions_;
  std::int64_t checkpoints_ = 0;
};

}  // namespace parbuckle
