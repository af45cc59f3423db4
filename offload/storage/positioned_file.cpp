#include "offload/storage/positioned_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }  // NOLINT(cppcoreguidelines-no-malloc)
};
using AlignedBytes = std::unique_ptr<std::byte, Free>;

/// Zeros, page aligned as O_DIRECT wants them; null where memory is short.
AlignedBytes aligned_zeros(std::int64_t bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, page_bytes, static_cast<std::size_t>(bytes)) != 0) {
    return nullptr;
  }
  std::memset(memory, 0, static_cast<std::size_t>(bytes));
  return AlignedBytes(static_cast<std::byte*>(memory));
}

/// Some file systems accept O_DIRECT when opening and refuse it when reading.
bool direct_read_works(int descriptor) {
  const AlignedBytes page = aligned_zeros(page_bytes);
  return page == nullptr || ::pread(descriptor, page.get(), page_bytes, 0) >= 0 || errno != EINVAL;
}

}  // namespace

Result<std::unique_ptr<BlockFile>> PositionedFile::open(const std::filesystem::path& path,
                                                        const PositionedFileOptions& options) {
  std::unique_ptr<PositionedFile> file(new PositionedFile());  // private constructor
  file->path_ = path.string();
  PARBUCKLE_TRY(file->open_descriptor(options.direct));
  IoTeamOptions team = options.team;
  team.drop_cache = !file->warning_.empty();
  PARBUCKLE_ASSIGN(file->readers_, IoTeam::create(file->path_, team));
  PARBUCKLE_ASSIGN(file->writers_, IoTeam::create(file->path_, team));
  file->engine_ = std::string("positioned (") + (team.drop_cache ? "buffered" : "O_DIRECT") +
                  ", 2 x " + std::to_string(team.threads) + " threads)";
  return std::unique_ptr<BlockFile>(std::move(file));
}

Status PositionedFile::open_descriptor(bool direct) {
  constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC;
  constexpr mode_t owner_only = 0600;
  if (direct) {
    descriptor_ = ::open(path_.c_str(), flags | O_DIRECT, owner_only);
    if (descriptor_ >= 0 && direct_read_works(descriptor_)) {
      return {};
    }
    if (descriptor_ < 0 && errno != EINVAL) {
      return io_error(path_ + ": cannot be opened: " + std::strerror(errno));
    }
    if (descriptor_ >= 0) {
      ::close(std::exchange(descriptor_, -1));
    }
  }
  descriptor_ = ::open(path_.c_str(), flags, owner_only);
  if (descriptor_ < 0) {
    return io_error(path_ + ": cannot be opened: " + std::strerror(errno));
  }
  warning_ = path_ +
             ": the file system refuses O_DIRECT; buffered I/O is used and the page cache "
             "dropped behind it (slower)";
  return {};
}

PositionedFile::~PositionedFile() {
  readers_.reset();
  writers_.reset();
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status PositionedFile::check(std::int64_t offset, const void* data, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (offset < 0 || offset % page_bytes != 0 || bytes % page_bytes != 0 ||
      address % page_bytes != 0) {
    return internal_error(path_ + ": request of " + std::to_string(bytes) + " bytes at offset " +
                          std::to_string(offset) + " is not made of whole pages");
  }
  return {};
}

Status PositionedFile::read(std::int64_t offset, std::span<std::byte> to) {
  PARBUCKLE_TRY(check(offset, to.data(), to.size()));
  return readers_->move({.descriptor = descriptor_,
                         .direction = IoDirection::read,
                         .data = to.data(),
                         .offset = offset,
                         .bytes = static_cast<std::int64_t>(to.size())});
}

Status PositionedFile::write(std::int64_t offset, std::span<const std::byte> from) {
  PARBUCKLE_TRY(check(offset, from.data(), from.size()));
  return writers_->move({.descriptor = descriptor_,
                         .direction = IoDirection::write,
                         .data = const_cast<std::byte*>(from.data()),  // NOLINT: only read from
                         .offset = offset,
                         .bytes = static_cast<std::int64_t>(from.size())});
}

Status PositionedFile::preallocate(std::int64_t bytes) {
  if (::fallocate(descriptor_, 0, 0, bytes) == 0) {
    return {};
  }
  const int reason = errno;
  if (reason == EOPNOTSUPP) {
    return write_zeros(bytes);
  }
  const std::string message =
      path_ + ": " + format_size(bytes) + " could not be reserved: " + std::strerror(reason);
  const bool is_short = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
  return is_short ? exhausted(message) : io_error(message);
}

Status PositionedFile::write_zeros(std::int64_t bytes) {
  constexpr std::int64_t piece = 4 * mib;
  const AlignedBytes zeros = aligned_zeros(piece);
  if (zeros == nullptr) {
    return exhausted(path_ + ": no memory to reserve the file with");
  }
  for (std::int64_t at = 0; at < bytes; at += piece) {
    const auto size = static_cast<std::size_t>(std::min(piece, bytes - at));
    PARBUCKLE_TRY(write(at, {zeros.get(), size}));
  }
  return {};
}

Status PositionedFile::sync() {
  if (::fdatasync(descriptor_) != 0) {
    return io_error(path_ + ": not made durable: " + std::strerror(errno));
  }
  return {};
}

}  // namespace parbuckle
