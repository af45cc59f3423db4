#include "engine/data/file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

constexpr std::int64_t write_out_every = 8 * mib;

std::string reason() {
  return std::strerror(errno);
}

}  // namespace

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      size_(other.size_),
      written_out_(other.written_out_) {
}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    path_ = std::move(other.path_);
    size_ = other.size_;
    written_out_ = other.written_out_;
  }
  return *this;
}

File::~File() {
  close();
}

void File::close() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

Result<File> File::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const Code code = errno == ENOENT ? Code::not_found : Code::io_error;
    return Status(code, path + ": cannot be opened: " + reason());
  }
  File file(descriptor, path, 0);
  struct stat facts {};
  if (fstat(descriptor, &facts) != 0) {
    return io_error(path + ": " + reason());
  }
  if (!S_ISREG(facts.st_mode)) {
    return invalid(path + ": not a regular file");
  }
  file.size_ = facts.st_size;
  return file;
}

Result<File> File::temporary(const std::string& directory) {
  int descriptor = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = directory + "/.parbuckle-XXXXXX";
    descriptor = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor >= 0) {
      ::unlink(name.c_str());
    }
  }
  if (descriptor < 0) {
    return io_error(directory + ": no temporary file can be made here: " + reason());
  }
  return File(descriptor, directory + " (temporary file)", 0);
}

Result<std::int64_t> File::read(std::int64_t offset, std::span<char> to) const {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = ::pread(
        descriptor_, to.data() + done, to.size() - done, offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return io_error(path_ + ": read failed: " + reason());
    }
    if (got == 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

Status File::append(std::span<const char> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done, size_);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      return io_error(path_ + ": write failed: " + reason());
    }
    done += static_cast<std::size_t>(put);
    size_ += put;
  }
  if (size_ - written_out_ >= write_out_every) {
    if (::fdatasync(descriptor_) != 0) {
      return io_error(path_ + ": write failed: " + reason());
    }
    drop_cached(written_out_, size_ - written_out_);
    written_out_ = size_;
  }
  return {};
}

void File::drop_cached(std::int64_t offset, std::int64_t bytes) const {
  ::posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_DONTNEED);
}

Result<std::string> read_whole_file(const std::string& path, std::int64_t limit) {
  PARBUCKLE_ASSIGN(const File file, File::open(path));
  if (file.size() > limit) {
    return invalid(path + ": " + std::to_string(file.size()) + " bytes; at most " +
                   std::to_string(limit) + " are read");
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  PARBUCKLE_ASSIGN(const std::int64_t got, file.read(0, text));
  text.resize(static_cast<std::size_t>(got));
  file.drop_cached(0, file.size());
  return text;
}

}  // namespace parbuckle
