#include "offload/storage/pool.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "parbuckle/units.h"

#include "offload/storage/checksum.h"
#include "offload/storage/drive.h"

namespace parbuckle {

Result<std::unique_ptr<Pool>> Pool::create(const PoolOptions& options) {
  if (options.bytes <= 0 || options.bytes % page_bytes != 0) {
    return internal_error("pool of " + std::to_string(options.bytes) +
                          " bytes: not a positive number of pages");
  }
  // Swept first: what a dead run left counts as used space.
  PARBUCKLE_ASSIGN(auto run, RunDirectory::create(options.folder));
  PARBUCKLE_TRY(check_drive(options.folder, options.bytes));
  PARBUCKLE_ASSIGN(auto file, open_block_file(run->path() / "pool", options.file));
  PARBUCKLE_TRY(file->preallocate(options.bytes));
  auto pool = over(std::move(file), options.bytes);
  pool->run_ = std::move(run);
  return pool;
}

std::unique_ptr<Pool> Pool::over(std::unique_ptr<BlockFile> file, std::int64_t bytes) {
  std::unique_ptr<Pool> pool(new Pool());  // private constructor
  pool->file_ = std::move(file);
  pool->bytes_ = bytes;
  return pool;
}

ExtentId Pool::add(Extent extent) {
  const ExtentId id(extents_.size());
  extent.chunks.resize(static_cast<std::size_t>((extent.bytes + chunk_bytes - 1) / chunk_bytes));
  extent.zero_tail = extent.starts_zero;
  by_name_.emplace(extent.name, id);
  used_ = std::max(used_, extent.offset + extent.bytes * extent.slots);
  extents_.push_back(std::move(extent));
  return id;
}

Result<ExtentId> Pool::extent(std::string_view name, std::int64_t bytes, bool starts_zero) {
  const std::int64_t size = round_up(bytes, page_bytes);
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) {
    const std::int64_t has = extents_[found->second.index()].bytes;
    return has == size ? Result<ExtentId>(found->second)
                       : internal_error("pool: block '" + std::string(name) + "' has " +
                                        std::to_string(has) + " bytes, asked again with " +
                                        std::to_string(size));
  }
  if (used_ + size > bytes_) {
    return exhausted("pool: no room for block '" + std::string(name) + "': needs " +
                     format_size(size) + ", " + format_size(bytes_ - used_) + " of " +
                     format_size(bytes_) + " left");
  }
  return add(
      {.name = std::string(name), .offset = used_, .bytes = size, .starts_zero = starts_zero});
}

Status Pool::check(const Extent& extent, std::int64_t offset, std::size_t bytes) const {
  const auto size = static_cast<std::int64_t>(bytes);
  if (offset < 0 || offset % chunk_bytes != 0 || size % page_bytes != 0 ||
      offset + size > extent.bytes) {
    return internal_error("pool: block '" + extent.name + "' of " + std::to_string(extent.bytes) +
                          " bytes: range " + std::to_string(offset) + " + " + std::to_string(size) +
                          " is outside, or not made of whole chunks");
  }
  return {};
}

Result<std::int64_t> Pool::read(ExtentId id,
                                std::int64_t offset,
                                std::span<std::byte> to,
                                bool allow_unwritten) {
  const Extent& extent = extents_[id.index()];
  PARBUCKLE_TRY(check(extent, offset, to.size()));
  const auto size = static_cast<std::int64_t>(to.size());
  const std::int64_t real = std::clamp<std::int64_t>(extent.written - offset, 0, size);
  if (real < size && !extent.zero_tail && !allow_unwritten) {
    return internal_error("pool: block '" + extent.name + "' is read at " +
                          std::to_string(offset + real) + " before it was written there");
  }
  const auto data = to.first(static_cast<std::size_t>(real));
  PARBUCKLE_TRY(file_->read(extent.place() + offset, data));
  PARBUCKLE_TRY(verify(extent, offset, data));
  if (real < size) {
    std::memset(to.data() + real, 0, static_cast<std::size_t>(size - real));
  }
  return real;
}

Status Pool::verify(const Extent& extent,
                    std::int64_t offset,
                    std::span<const std::byte> data) const {
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(data.size()); at += chunk_bytes) {
    const Chunk& chunk = extent.chunks[static_cast<std::size_t>((offset + at) / chunk_bytes)];
    const auto left = data.subspan(static_cast<std::size_t>(at));
    if (chunk.covered > static_cast<std::int64_t>(left.size())) {
      return internal_error("pool: block '" + extent.name + "' is read at " +
                            std::to_string(offset + at) + " by " + std::to_string(left.size()) +
                            " bytes, " + std::to_string(chunk.covered) + " have one checksum");
    }
    if (checksum(left.first(static_cast<std::size_t>(chunk.covered))) != chunk.checksum) {
      return Status(Code::data_corrupt,
                    file_->path() + ": block '" + extent.name + "' at offset " +
                        std::to_string(extent.place() + offset + at) + " (" +
                        std::to_string(chunk.covered) +
                        " bytes) is not what was written there: the drive or its file is damaged");
    }
  }
  return {};
}

Status Pool::write(ExtentId id, std::int64_t offset, std::span<const std::byte> from) {
  Extent& extent = extents_[id.index()];
  PARBUCKLE_TRY(check(extent, offset, from.size()));
  const auto end = offset + static_cast<std::int64_t>(from.size());
  const bool stored = id.index() < blocks_.size();
  if (stored && end % chunk_bytes != 0 && end != extent.bytes) {
    return internal_error("pool: block '" + extent.name + "' is written up to " +
                          std::to_string(end) + ", in the middle of a chunk");
  }
  if ((extent.taken >> static_cast<unsigned>(extent.working) & 1U) != 0) {
    PARBUCKLE_TRY(take_free_slot(extent, offset));
  }
  if (offset > extent.written) {
    PARBUCKLE_TRY(fill_gap(extent, offset));
  }
  PARBUCKLE_TRY(put(extent, offset, from));
  extent.written = std::max(extent.written, end);
  return {};
}

Status Pool::take_free_slot(Extent& extent, std::int64_t offset) const {
  if (offset != 0) {
    return internal_error("pool: block '" + extent.name +
                          "' is changed in its middle after a commit; a new version begins at 0");
  }
  for (std::int32_t slot = 0; slot < extent.slots; ++slot) {
    if ((extent.taken >> static_cast<unsigned>(slot) & 1U) == 0) {
      extent.working = slot;
      extent.written = 0;
      extent.zero_tail = false;
      return {};
    }
  }
  return internal_error("pool: block '" + extent.name + "': all " + std::to_string(extent.slots) +
                        " slots belong to committed versions");
}

/// Checksums first: `from` may not change before the write has returned, and need not stay in the cache after it.
Status Pool::put(Extent& extent, std::int64_t offset, std::span<const std::byte> from) {
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(from.size()); at += chunk_bytes) {
    const auto left = from.subspan(static_cast<std::size_t>(at));
    const auto covered = left.first(std::min(left.size(), static_cast<std::size_t>(chunk_bytes)));
    extent.chunks[static_cast<std::size_t>((offset + at) / chunk_bytes)] = {
        .checksum = checksum(covered), .covered = static_cast<std::int64_t>(covered.size())};
  }
  return file_->write(extent.place() + offset, from);
}

Status Pool::fill_gap(Extent& extent, std::int64_t end) {
  if (extent.written % chunk_bytes != 0) {
    return internal_error("pool: block '" + extent.name + "' has a gap at " +
                          std::to_string(extent.written) + ", in the middle of a chunk");
  }
  PARBUCKLE_ASSIGN(const PageMemory zeros, PageMemory::create(chunk_bytes));
  while (extent.written < end) {
    PARBUCKLE_TRY(put(extent, extent.written, zeros.span()));
    extent.written += chunk_bytes;
  }
  return {};
}

std::vector<std::string> Pool::warnings() const {
  std::vector<std::string> lines;
  for (const std::string& line : {file_->warning(), log_ ? log_->warning() : std::string()}) {
    if (!line.empty()) {
      lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace parbuckle
