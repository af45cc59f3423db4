#include "offload/storage/run_directory.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace parbuckle {
namespace {

constexpr std::string_view prefix = "parbuckle-";
constexpr int format_version = 1;

/// An open descriptor, closed at the end; closing the last one of an open file gives its flock back.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (value_ >= 0) {
      ::close(value_);
    }
  }
  [[nodiscard]] int value() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

Status system_failure(const std::filesystem::path& path, const std::string& what) {
  return io_error(path.string() + ": " + what + ": " + std::strerror(errno));
}

std::string random_id() {
  std::array<std::uint8_t, 6> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    bytes = {};  // the process id alone still tells runs apart
  }
  std::string id = std::to_string(::getpid()) + '-';
  for (const std::uint8_t byte : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    id += digits[byte >> 4];
    id += digits[byte & 15];
  }
  return id;
}

/// A run is dead when its lock can be had. One without a lock file died before it was made: all creation happens
/// under the folder's own lock, which the caller holds.
bool is_dead(const std::filesystem::path& run) {
  const Descriptor lock(::open((run / "lock").c_str(), O_RDWR | O_CLOEXEC));
  return lock.value() < 0 ? errno == ENOENT : ::flock(lock.value(), LOCK_EX | LOCK_NB) == 0;
}

int sweep(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> dead;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const bool is_run = entry.path().filename().string().starts_with(prefix);
    if (is_run && entry.is_directory(error) && is_dead(entry.path())) {
      dead.push_back(entry.path());
    }
  }
  for (const auto& path : dead) {
    std::filesystem::remove_all(path, error);
  }
  return static_cast<int>(dead.size());
}

}  // namespace

Result<std::unique_ptr<RunDirectory>> RunDirectory::create(const std::filesystem::path& folder) {
  const Descriptor parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.value() < 0) {
    return system_failure(folder, "cannot be used as a folder for NVMe data");
  }
  if (::flock(parent.value(), LOCK_EX) != 0) {
    return system_failure(folder, "cannot be locked");
  }
  std::unique_ptr<RunDirectory> run(new RunDirectory());  // private constructor
  run->swept_ = sweep(folder);
  run->run_id_ = random_id();
  const std::filesystem::path path = folder / (std::string(prefix) + run->run_id_);
  if (::mkdir(path.c_str(), 0700) != 0) {
    return system_failure(path, "cannot be made");
  }
  run->path_ = path;
  Descriptor lock(::open((path / "lock").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (lock.value() < 0 || ::flock(lock.value(), LOCK_EX | LOCK_NB) != 0) {
    return system_failure(path / "lock", "cannot be made and locked");
  }
  const std::string text = "parbuckle run directory, format " + std::to_string(format_version) +
                           ", process " + std::to_string(::getpid()) + "\n";
  if (::write(lock.value(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return system_failure(path / "lock", "cannot be written");
  }
  run->lock_descriptor_ = lock.release();
  return run;
}

RunDirectory::~RunDirectory() {
  if (!path_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  if (lock_descriptor_ >= 0) {
    ::close(lock_descriptor_);
  }
}

}  // namespace parbuckle
