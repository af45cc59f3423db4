#include "engine/checkpoint/output_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

constexpr std::int64_t flush_every = 8 * mib;

Status failed(const std::string& path, const char* what, int error) {
  const std::string text = path + ": " + what + " failed: " + std::strerror(error);
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? exhausted(text) : io_error(text);
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path, std::int64_t bytes) {
  OutputFile file;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return failed(path, "creating it", errno);
  }
  file.path_ = path;  // from here on the destructor removes it
  file.descriptor_ = descriptor;
  if (bytes > 0 && ::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, bytes) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS) {
    return failed(path, ("reserving " + format_size(bytes)).c_str(), errno);
  }
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      written_(other.written_),
      flushed_(other.flushed_) {
}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(written_, other.written_);
  std::swap(flushed_, other.flushed_);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    static_cast<void>(::close(descriptor_));
    static_cast<void>(::unlink(path_.c_str()));
  }
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return failed(path_, "writing", errno);
    }
    if (count == 0) {
      return io_error(path_ + ": writing made no progress at byte " + std::to_string(written_));
    }
    written_ += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  if (written_ - flushed_ >= flush_every) {
    flush_and_drop();
  }
  return {};
}

Status OutputFile::write_text(std::string_view text) {
  return write(std::as_bytes(std::span(text)));
}

/// Errors are not lost here: the fsync of finish() reports them.
void OutputFile::flush_and_drop() {
  constexpr unsigned wait =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  static_cast<void>(::sync_file_range(descriptor_, flushed_, written_ - flushed_, wait));
  static_cast<void>(::posix_fadvise(
      descriptor_, flushed_ / page_bytes * page_bytes, written_ - flushed_, POSIX_FADV_DONTNEED));
  flushed_ = written_;
}

Status OutputFile::finish() {
  if (::fsync(descriptor_) != 0) {
    return failed(path_, "making it durable", errno);
  }
  static_cast<void>(::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED));
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) {
    return failed(path_, "closing it", errno);
  }
  return {};
}

Status rename_durably(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    return failed(to, ("renaming " + from + " to it").c_str(), errno);
  }
  const std::string parent = std::filesystem::path(to).parent_path().string();
  return sync_folder(parent.empty() ? "." : parent);
}

Status sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return failed(folder, "opening it", errno);
  }
  const int result = ::fsync(descriptor);
  const int error = errno;
  static_cast<void>(::close(descriptor));
  // Some file systems cannot sync a folder and say EINVAL: nothing more can be done there.
  return result != 0 && error != EINVAL ? failed(folder, "making it durable", error) : Status();
}

Status check_disk_space(const std::string& folder, std::int64_t bytes, std::int64_t largest) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) {
    return failed(folder, "asking for its free space", errno);
  }
  const auto free =
      static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
  if (bytes > free) {
    return exhausted(folder + ": has " + format_size(free) + " free; saving needs " +
                     format_size(bytes));
  }
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      largest > static_cast<std::int64_t>(limit.rlim_cur)) {
    return exhausted(folder + ": the file-size limit (ulimit -f) is " +
                     format_size(static_cast<std::int64_t>(limit.rlim_cur)) +
                     "; the largest file needs " + format_size(largest));
  }
  return {};
}

}  // namespace parbuckle
