#include "offload/run/block_access.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

constexpr std::int64_t buffer_bytes = 1 * mib;

/// Whole pages can move between `data` and a drive without a copy.
bool is_direct(const void* data, std::int64_t offset, std::int64_t bytes) {
  return bytes >= page_bytes && offset % page_bytes == 0 &&
         reinterpret_cast<std::uintptr_t>(data) % page_bytes == 0;
}

}  // namespace

/// The pages around [offset, offset + bytes), as many as the buffer holds.
struct BlockAccess::Window {
  std::int64_t first = 0;   // of the pages, in the extent
  std::int64_t pages = 0;   // bytes of all pages
  std::int64_t inside = 0;  // where `offset` stands in the window
  std::int64_t used = 0;    // bytes wanted from there on

  Window(std::int64_t offset, std::int64_t bytes)
      : first(offset / page_bytes * page_bytes),
        pages(std::min(buffer_bytes, round_up(offset + bytes, page_bytes) - first)),
        inside(offset - first),
        used(std::min(bytes, pages - inside)) {}
  [[nodiscard]] std::span<std::byte> of(std::byte* buffer) const {
    return {buffer, static_cast<std::size_t>(pages)};
  }
  [[nodiscard]] bool covered() const { return inside == 0 && used == pages; }
};

void BlockAccess::Unmap::operator()(std::byte* memory) const {
  ::munmap(memory, buffer_bytes);
}

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

Result<std::byte*> BlockAccess::buffer() {
  if (buffer_ == nullptr) {
    void* const memory =
        ::mmap(nullptr, buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return exhausted("no memory for the buffer of " + format_size(buffer_bytes) +
                       " that blocks are loaded through");
    }
    buffer_.reset(static_cast<std::byte*>(memory));
  }
  return buffer_.get();
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
    const auto size = static_cast<std::int64_t>(to.size());
    std::int64_t moved = size / page_bytes * page_bytes;
    if (is_direct(to.data(), offset, size)) {
      PARBUCKLE_ASSIGN(
          [[maybe_unused]] const std::int64_t real,
          pool_->read(place.extent, offset, to.first(static_cast<std::size_t>(moved))));
    } else {
      PARBUCKLE_ASSIGN(std::byte* const pages, buffer());
      const Window window(offset, size);
      PARBUCKLE_ASSIGN([[maybe_unused]] const std::int64_t real,
                       pool_->read(place.extent, window.first, window.of(pages)));
      moved = window.used;
      std::memcpy(to.data(), pages + window.inside, static_cast<std::size_t>(moved));
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
    const auto size = static_cast<std::int64_t>(from.size());
    std::int64_t moved = size / page_bytes * page_bytes;
    if (is_direct(from.data(), offset, size)) {
      PARBUCKLE_TRY(
          pool_->write(place.extent, offset, from.first(static_cast<std::size_t>(moved))));
    } else {
      PARBUCKLE_ASSIGN(std::byte* const pages, buffer());
      const Window window(offset, size);
      if (!window.covered()) {
        PARBUCKLE_ASSIGN([[maybe_unused]] const std::int64_t real,
                         pool_->read(place.extent, window.first, window.of(pages), true));
      }
      moved = window.used;
      std::memcpy(pages + window.inside, from.data(), static_cast<std::size_t>(moved));
      PARBUCKLE_TRY(pool_->write(place.extent, window.first, window.of(pages)));
    }
    offset += moved;
    from = from.subspan(static_cast<std::size_t>(moved));
  }
  return {};
}

}  // namespace parbuckle
