#include "offload/storage/file_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace parbuckle {
namespace {

/// The text of a lock file: "process 1234".
std::string holder(int descriptor) {
  std::array<char, 64> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  std::string line(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  line.resize(std::min(line.find('\n'), line.size()));
  return line.empty() ? "another process" : line;
}

/// A holder that ends removes the file; who waited for it then holds a file that is no longer there.
bool is_still_at(int descriptor, const std::filesystem::path& path) {
  struct stat held {};
  struct stat named {};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

}  // namespace

Result<FileLock> FileLock::take(const std::filesystem::path& path) {
  while (true) {
    FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock.descriptor_ < 0) {
      return io_error(path.string() + ": cannot be made: " + std::strerror(errno));
    }
    if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
      return errno == EWOULDBLOCK
                 ? invalid(path.parent_path().string() + ": in use by another run (" +
                           holder(lock.descriptor_) + ")")
                 : io_error(path.string() + ": cannot be locked: " + std::strerror(errno));
    }
    if (!is_still_at(lock.descriptor_, path)) {
      continue;
    }
    const std::string text = "process " + std::to_string(::getpid()) + "\n";
    if (::ftruncate(lock.descriptor_, 0) != 0 ||
        ::pwrite(lock.descriptor_, text.data(), text.size(), 0) !=
            static_cast<ssize_t>(text.size())) {
      return io_error(path.string() + ": cannot be written: " + std::strerror(errno));
    }
    return lock;
  }
}

bool FileLock::is_free(const std::filesystem::path& path) {
  const FileLock lock(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return lock.descriptor_ < 0 ? errno == ENOENT : ::flock(lock.descriptor_, LOCK_EX | LOCK_NB) == 0;
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {
}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

}  // namespace parbuckle
