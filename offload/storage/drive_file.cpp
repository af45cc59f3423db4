#include "offload/storage/drive_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
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

Result<DriveFile> DriveFile::open(const std::filesystem::path& path, bool direct) {
  constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC;
  constexpr mode_t owner_only = 0600;
  DriveFile file;
  file.path_ = path.string();
  if (direct) {
    file.descriptor_ = ::open(path.c_str(), flags | O_DIRECT, owner_only);
    if (file.descriptor_ >= 0 && direct_read_works(file.descriptor_)) {
      file.direct_ = true;
      return file;
    }
    if (file.descriptor_ < 0 && errno != EINVAL) {
      return io_error(file.path_ + ": cannot be opened: " + std::strerror(errno));
    }
    if (file.descriptor_ >= 0) {
      ::close(std::exchange(file.descriptor_, -1));
    }
  }
  file.descriptor_ = ::open(path.c_str(), flags, owner_only);
  if (file.descriptor_ < 0) {
    return io_error(file.path_ + ": cannot be opened: " + std::strerror(errno));
  }
  return file;
}

DriveFile::DriveFile(DriveFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      direct_(other.direct_),
      path_(std::move(other.path_)) {
}

DriveFile& DriveFile::operator=(DriveFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  direct_ = other.direct_;
  path_.swap(other.path_);
  return *this;
}

DriveFile::~DriveFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status DriveFile::check(std::int64_t offset, const void* data, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (offset < 0 || offset % page_bytes != 0 || bytes % page_bytes != 0 ||
      address % page_bytes != 0) {
    return internal_error(path_ + ": request of " + std::to_string(bytes) + " bytes at offset " +
                          std::to_string(offset) + " is not made of whole pages");
  }
  return {};
}

Status DriveFile::preallocate(std::int64_t bytes, BlockFile& engine) const {
  if (::fallocate(descriptor_, 0, 0, bytes) == 0) {
    return {};
  }
  const int reason = errno;
  if (reason == EOPNOTSUPP) {
    return write_zeros(bytes, engine);
  }
  const std::string message =
      path_ + ": " + format_size(bytes) + " could not be reserved: " + std::strerror(reason);
  const bool is_short = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
  return is_short ? exhausted(message) : io_error(message);
}

Status DriveFile::write_zeros(std::int64_t bytes, BlockFile& engine) const {
  constexpr std::int64_t piece = 4 * mib;
  const AlignedBytes zeros = aligned_zeros(piece);
  if (zeros == nullptr) {
    return exhausted(path_ + ": no memory to reserve the file with");
  }
  for (std::int64_t at = 0; at < bytes; at += piece) {
    const auto size = static_cast<std::size_t>(std::min(piece, bytes - at));
    PARBUCKLE_TRY(engine.write(at, {zeros.get(), size}));
  }
  return {};
}

Status DriveFile::sync() const {
  if (::fdatasync(descriptor_) != 0) {
    return io_error(path_ + ": not made durable: " + std::strerror(errno));
  }
  return {};
}

}  // namespace parbuckle
