#include "offload/tier/arena.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/resource.h>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

constexpr std::int64_t huge_page_bytes = 2 * mib;

std::size_t as_size(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

/// A mapping whose start is a multiple of `alignment`: maps more and gives the ends back.
void* map_aligned(std::int64_t bytes, std::int64_t alignment) {
  const std::int64_t wanted = round_up(bytes, page_bytes);
  const std::int64_t mapped = wanted + (alignment > page_bytes ? alignment : 0);
  void* const start =
      ::mmap(nullptr, as_size(mapped), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED || mapped == wanted) {
    return start;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::int64_t head =
      (alignment - static_cast<std::int64_t>(address % static_cast<std::uintptr_t>(alignment))) %
      alignment;
  auto* const first = static_cast<std::byte*>(start);
  if (head > 0) {
    ::munmap(first, as_size(head));
  }
  if (alignment - head > 0) {
    ::munmap(first + head + wanted, as_size(alignment - head));
  }
  return first + head;
}

}  // namespace

Result<Arena> Arena::create(const ArenaOptions& options) {
  if (options.bytes <= 0) {
    return invalid("host arena: " + std::to_string(options.bytes) + " bytes, must be positive");
  }
  void* const data = map_aligned(options.bytes, options.huge_pages ? huge_page_bytes : page_bytes);
  if (data == MAP_FAILED) {
    return exhausted("host arena: " + format_size(options.bytes) +
                     " not given by the operating system: " + std::strerror(errno));
  }
  Arena arena;
  arena.data_ = static_cast<std::byte*>(data);
  arena.bytes_ = options.bytes;
  const std::size_t mapped = as_size(round_up(options.bytes, page_bytes));
  ::madvise(data, mapped, MADV_DONTDUMP);
  if (::madvise(data, mapped, options.huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) != 0 &&
      options.huge_pages) {
    arena.warning_ = "host arena: 2 MiB pages are not available here; 4 KiB pages are used";
  }
  if (options.touch) {
    for (std::int64_t at = 0; at < options.bytes; at += page_bytes) {
      const_cast<volatile std::byte&>(arena.data_[at]) = std::byte{0};
    }
  }
  if (options.lock) {
    arena.lock(options.touch);
  }
  return arena;
}

void Arena::lock(bool touch) {
  if (::mlock2(data_, as_size(bytes_), touch ? 0U : MLOCK_ONFAULT) == 0) {
    locked_ = true;
    return;
  }
  const int reason = errno;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string allowed = limit.rlim_cur == RLIM_INFINITY
                                  ? "without limit"
                                  : format_size(static_cast<std::int64_t>(limit.rlim_cur));
  warning_ = "host arena: " + format_size(bytes_) + " not locked in memory (" +
             std::strerror(reason) + "; RLIMIT_MEMLOCK is " + allowed +
             "): the system may swap it; raise `ulimit -l` to lock it";
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      locked_(std::exchange(other.locked_, false)),
      warning_(std::move(other.warning_)) {
}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    locked_ = std::exchange(other.locked_, false);
    warning_ = std::move(other.warning_);
  }
  return *this;
}

Arena::~Arena() {
  release();
}

void Arena::release() {
  if (data_ != nullptr) {
    ::munmap(data_, as_size(round_up(bytes_, page_bytes)));
    data_ = nullptr;
  }
}

}  // namespace parbuckle
