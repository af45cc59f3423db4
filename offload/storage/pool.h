// The NVMe tier: one preallocated file that holds an extent per block. The map from block to offset is here and nowhere
// else, so that versions of a block can come to have extents of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/ids.h"
#include "offload/storage/block_file.h"
#include "offload/storage/positioned_file.h"
#include "offload/storage/run_directory.h"

namespace parbuckle {

using ExtentId = Id<struct ExtentTag>;

struct PoolOptions {
  std::filesystem::path folder;  // exists, on a drive
  std::int64_t bytes = 0;        // multiple of page_bytes
  PositionedFileOptions file;
};

/// read and write may be called from several threads, on different extents at a time.
class Pool {
 public:
  /// Checks folder, free space, quota and file-size limit, then locks a run directory and reserves the whole file.
  /// Leaves nothing behind when it fails.
  static Result<std::unique_ptr<Pool>> create(const PoolOptions& options);
  /// A pool in a file that someone else made: `bytes` of it.
  static std::unique_ptr<Pool> over(std::unique_ptr<BlockFile> file, std::int64_t bytes);

  /// The extent of this name, made at the first call: `bytes` rounded up to whole pages. A block that starts as zeros
  /// is virtual until it is first written: reading it moves nothing.
  /// resource_exhausted where the pool is full; internal where the name has an extent of another size.
  Result<ExtentId> extent(std::string_view name, std::int64_t bytes, bool starts_zero);

  /// Whole pages. Returns the bytes that really came from the drive: what was never written is zeros if the extent
  /// starts as zeros or `allow_unwritten`, and an internal error that names the block otherwise.
  Result<std::int64_t> read(ExtentId extent,
                            std::int64_t offset,
                            std::span<std::byte> to,
                            bool allow_unwritten = false);
  /// Whole pages; a gap between what was written before and `offset` is filled with zeros.
  Status write(ExtentId extent, std::int64_t offset, std::span<const std::byte> from);

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t used_bytes() const { return used_; }
  [[nodiscard]] std::string_view engine() const { return file_->engine(); }
  [[nodiscard]] const std::string& warning() const { return file_->warning(); }
  /// Empty for a pool made by over().
  [[nodiscard]] std::string run_id() const { return run_ ? run_->run_id() : std::string(); }

 private:
  struct Extent {
    std::string name;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::int64_t written = 0;  // [0, written) holds what was written; beyond it zeros are meant
    bool starts_zero = false;
  };

  Pool() = default;
  [[nodiscard]] Status check(const Extent& extent, std::int64_t offset, std::size_t bytes) const;
  Status fill_gap(Extent& extent, std::int64_t end);

  std::unique_ptr<RunDirectory> run_;  // outlives file_
  std::unique_ptr<BlockFile> file_;
  std::int64_t bytes_ = 0;
  std::int64_t used_ = 0;
  std::vector<Extent> extents_;
  std::map<std::string, ExtentId, std::less<>> by_name_;
};

}  // namespace parbuckle
