#include "offload/run/block_access.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {

BlockAccess::BlockAccess(const Workload& workload,
                         Pool* pool,
                         Stream* stream,
                         std::vector<BlockPlace> places)
    : workload_(workload), pool_(pool), stream_(stream), places_(std::move(places)) {
}

Status BlockAccess::check(BlockId block, std::int64_t offset, std::size_t bytes) const {
  if (!block.valid() || block.index() >= places_.size()) {
    return internal_error("block " + std::to_string(block.value) + " does not exist");
  }
  const Block& of = workload_.blocks[block.index()];
  const BlockPlace& place = places_[block.index()];
  if (place.address == nullptr && !place.extent.valid()) {
    return internal_error("block '" + of.name + "' has no home between steps");
  }
  if (offset < 0 || offset + static_cast<std::int64_t>(bytes) > of.bytes) {
    return internal_error("block '" + of.name + "' of " + std::to_string(of.bytes) +
                          " bytes: range " + std::to_string(offset) + " + " +
                          std::to_string(bytes) + " is outside");
  }
  return {};
}

/// Bytes from `offset` on that move between the drive and `memory` without a copy: whole chunks, the last one of a block
/// included.
std::int64_t BlockAccess::whole_chunks(BlockId block,
                                       std::int64_t offset,
                                       std::span<const std::byte> memory) const {
  const auto size = static_cast<std::int64_t>(memory.size());
  const bool aligned = reinterpret_cast<std::uintptr_t>(memory.data()) % page_bytes == 0;
  if (!aligned || offset % chunk_bytes != 0) {
    return 0;
  }
  const bool to_the_end = offset + size == workload_.blocks[block.index()].bytes;
  return to_the_end && size % page_bytes == 0 ? size : size / chunk_bytes * chunk_bytes;
}

/// The chunk around `offset`, in the buffer.
Result<std::span<std::byte>> BlockAccess::hold(BlockId block,
                                               std::int64_t offset,
                                               bool allow_unwritten) {
  const std::int64_t first = offset / chunk_bytes * chunk_bytes;
  if (buffer_.span().empty()) {
    PARBUCKLE_ASSIGN(buffer_, PageMemory::create(chunk_bytes));
  }
  if (held_.block != block || held_.first != first) {
    PARBUCKLE_TRY(flush());
    const std::int64_t all = round_up(workload_.blocks[block.index()].bytes, page_bytes);
    const std::int64_t bytes = std::min(chunk_bytes, all - first);
    PARBUCKLE_ASSIGN([[maybe_unused]] const std::int64_t real,
                     pool_->read(places_[block.index()].extent,
                                 first,
                                 buffer_.span().first(static_cast<std::size_t>(bytes)),
                                 allow_unwritten));
    held_ = {.block = block, .first = first, .bytes = bytes, .dirty = false};
  }
  return buffer_.span().first(static_cast<std::size_t>(held_.bytes));
}

Status BlockAccess::flush() {
  const Held held = std::exchange(held_, Held{});
  if (!held.dirty) {
    return {};
  }
  return pool_->write(places_[held.block.index()].extent,
                      held.first,
                      buffer_.span().first(static_cast<std::size_t>(held.bytes)));
}

Status BlockAccess::read(BlockId block, std::int64_t offset, std::span<std::byte> to) {
  PARBUCKLE_TRY(check(block, offset, to.size()));
  const BlockPlace& place = places_[block.index()];
  if (place.on_device) {
    PARBUCKLE_TRY(stream_->copy(to.data(),
                                place.address + offset,
                                static_cast<std::int64_t>(to.size()),
                                CopyDirection::to_host));
    return stream_->synchronise();
  }
  if (place.address != nullptr) {
    std::memcpy(to.data(), place.address + offset, to.size());
    return {};
  }
  while (!to.empty()) {
    std::int64_t moved = whole_chunks(block, offset, to);
    if (moved > 0) {
      PARBUCKLE_TRY(flush());
      PARBUCKLE_ASSIGN(
          [[maybe_unused]] const std::int64_t real,
          pool_->read(place.extent, offset, to.first(static_cast<std::size_t>(moved))));
    } else {
      PARBUCKLE_ASSIGN(const std::span<std::byte> chunk, hold(block, offset, false));
      const auto part = chunk.subspan(static_cast<std::size_t>(offset - held_.first));
      moved = static_cast<std::int64_t>(std::min(part.size(), to.size()));
      std::memcpy(to.data(), part.data(), static_cast<std::size_t>(moved));
    }
    offset += moved;
    to = to.subspan(static_cast<std::size_t>(moved));
  }
  return {};
}

Status BlockAccess::write(BlockId block, std::int64_t offset, std::span<const std::byte> from) {
  PARBUCKLE_TRY(check(block, offset, from.size()));
  const BlockPlace& place = places_[block.index()];
  if (place.on_device) {
    PARBUCKLE_TRY(stream_->copy(place.address + offset,
                                from.data(),
                                static_cast<std::int64_t>(from.size()),
                                CopyDirection::to_device));
    return stream_->synchronise();
  }
  if (place.address != nullptr) {
    std::memcpy(place.address + offset, from.data(), from.size());
    return {};
  }
  while (!from.empty()) {
    std::int64_t moved = whole_chunks(block, offset, from);
    if (moved > 0) {
      PARBUCKLE_TRY(flush());
      PARBUCKLE_TRY(
          pool_->write(place.extent, offset, from.first(static_cast<std::size_t>(moved))));
    } else {
      PARBUCKLE_ASSIGN(const std::span<std::byte> chunk, hold(block, offset, true));
      const auto part = chunk.subspan(static_cast<std::size_t>(offset - held_.first));
      moved = static_cast<std::int64_t>(std::min(part.size(), from.size()));
      std::memcpy(part.data(), from.data(), static_cast<std::size_t>(moved));
      held_.dirty = true;
    }
    offset += moved;
    from = from.subspan(static_cast<std::size_t>(moved));
  }
  return {};
}

}  // namespace parbuckle
