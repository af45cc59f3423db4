#include "offload/storage/pool.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "parbuckle/units.h"

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
  PARBUCKLE_ASSIGN(auto file, PositionedFile::open(run->path() / "pool", options.file));
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
  const ExtentId id(extents_.size());
  extents_.push_back(
      {.name = std::string(name), .offset = used_, .bytes = size, .starts_zero = starts_zero});
  by_name_.emplace(name, id);
  used_ += size;
  return id;
}

Status Pool::check(const Extent& extent, std::int64_t offset, std::size_t bytes) const {
  const auto size = static_cast<std::int64_t>(bytes);
  if (offset < 0 || offset + size > extent.bytes) {
    return internal_error("pool: block '" + extent.name + "' of " + std::to_string(extent.bytes) +
                          " bytes: range " + std::to_string(offset) + " + " + std::to_string(size) +
                          " is outside");
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
  if (real < size && !extent.starts_zero && !allow_unwritten) {
    return internal_error("pool: block '" + extent.name + "' is read at " +
                          std::to_string(offset + real) + " before it was written there");
  }
  PARBUCKLE_TRY(file_->read(extent.offset + offset, to.first(static_cast<std::size_t>(real))));
  if (real < size) {
    std::memset(to.data() + real, 0, static_cast<std::size_t>(size - real));
  }
  return real;
}

Status Pool::write(ExtentId id, std::int64_t offset, std::span<const std::byte> from) {
  Extent& extent = extents_[id.index()];
  PARBUCKLE_TRY(check(extent, offset, from.size()));
  if (offset > extent.written) {
    PARBUCKLE_TRY(fill_gap(extent, offset));
  }
  PARBUCKLE_TRY(file_->write(extent.offset + offset, from));
  extent.written = std::max(extent.written, offset + static_cast<std::int64_t>(from.size()));
  return {};
}

Status Pool::fill_gap(Extent& extent, std::int64_t end) {
  alignas(page_bytes) static constexpr std::array<std::byte, 16 * page_bytes> zeros{};
  while (extent.written < end) {
    const std::size_t piece =
        std::min(zeros.size(), static_cast<std::size_t>(end - extent.written));
    PARBUCKLE_TRY(file_->write(extent.offset + extent.written, {zeros.data(), piece}));
    extent.written += static_cast<std::int64_t>(piece);
  }
  return {};
}

}  // namespace parbuckle
