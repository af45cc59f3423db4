#include "engine/checkpoint/input_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {

Result<InputFile> InputFile::open(const std::string& path) {
  InputFile file;
  file.name_ = path;
  // O_NONBLOCK: opening a pipe must fail below, not wait for a writer.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) {
    const int error = errno;
    return Status(error == ENOENT ? Code::not_found : Code::io_error,
                  path + ": cannot be opened: " + std::strerror(error));
  }
  struct stat info {};
  if (::fstat(file.descriptor_, &info) != 0) {
    return io_error(path + ": cannot be examined: " + std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return invalid(path + ": is not a regular file");
  }
  file.size_ = info.st_size;
  // Our requests are large already; read-ahead would only fill the cache behind our back.
  static_cast<void>(::posix_fadvise(file.descriptor_, 0, 0, POSIX_FADV_RANDOM));
  return file;
}

InputFile InputFile::in_memory(std::string name, std::span<const std::byte> bytes) {
  InputFile file;
  file.name_ = std::move(name);
  file.size_ = static_cast<std::int64_t>(bytes.size());
  file.memory_ = bytes;
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : name_(std::move(other.name_)),
      size_(other.size_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      memory_(other.memory_) {
}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(memory_, other.memory_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) {
    static_cast<void>(::close(descriptor_));
  }
}

Status InputFile::read(std::int64_t offset, std::span<std::byte> out) const {
  const auto wanted = static_cast<std::int64_t>(out.size());
  if (offset < 0 || offset > size_ || wanted > size_ - offset) {
    return invalid(name_ + ": bytes " + std::to_string(offset) + ".." +
                   std::to_string(offset + wanted) + " are beyond its end at " +
                   std::to_string(size_));
  }
  if (wanted == 0) {
    return {};
  }
  if (descriptor_ < 0) {
    std::memcpy(out.data(), memory_.data() + offset, out.size());
    return {};
  }
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_,
                                out.data() + done,
                                out.size() - done,
                                offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return io_error(name_ + ": reading at byte " + std::to_string(offset) +
                      " failed: " + std::strerror(errno));
    }
    if (got == 0) {
      return io_error(name_ + ": ends before byte " + std::to_string(offset + wanted) +
                      ": it was cut while being read");
    }
    done += static_cast<std::size_t>(got);
  }
  drop_from_cache(offset, wanted);
  return {};
}

Result<std::string> InputFile::read_text(std::int64_t limit) const {
  if (size_ > limit) {
    return invalid(name_ + ": has " + std::to_string(size_) + " bytes; at most " +
                   std::to_string(limit) + " are read");
  }
  std::string text(static_cast<std::size_t>(size_), '\0');
  PARBUCKLE_TRY(read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

void InputFile::drop_from_cache(std::int64_t offset, std::int64_t bytes) const {
  // Partial pages are kept by the kernel, so the range is widened to whole pages.
  const std::int64_t begin = offset / page_bytes * page_bytes;
  const std::int64_t end = round_up(offset + bytes, page_bytes);
  static_cast<void>(::posix_fadvise(descriptor_, begin, end - begin, POSIX_FADV_DONTNEED));
}

}  // namespace parbuckle
