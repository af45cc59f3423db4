#include "offload/storage/run_directory.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <string_view>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "parbuckle-";
constexpr std::int64_t stat_block_bytes = 512;  // unit of st_blocks

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

 private:
  int value_;
};

Status system_failure(const fs::path& path, const std::string& what) {
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

std::int64_t bytes_on_drive(const fs::path& folder) {
  std::int64_t sum = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) == 0) {
      sum += status.st_blocks * stat_block_bytes;
    }
  }
  return sum;
}

bool same_place(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

}  // namespace

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// A run is dead when its lock can be had. One without a lock file died before it was made: all creation happens
/// under the folder's own lock, which the caller holds.
void RunDirectory::sweep(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> dead;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const bool is_run = entry.path().filename().string().starts_with(prefix);
    if (is_run && entry.is_directory(error) && FileLock::is_free(entry.path() / "lock")) {
      dead.push_back(entry.path());
    }
  }
  for (const auto& path : dead) {
    const std::string owner = first_line(path / "owner");
    if (!owner.empty() && same_place(first_line(owner), path)) {
      left_over_.push_back({.path = path, .owner = owner, .bytes = bytes_on_drive(path)});
    } else {
      fs::remove_all(path, error);
      ++swept_;
    }
  }
}

Result<std::unique_ptr<RunDirectory>> RunDirectory::create(const fs::path& folder) {
  const Descriptor parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.value() < 0) {
    return system_failure(folder, "cannot be used as a folder for NVMe data");
  }
  if (::flock(parent.value(), LOCK_EX) != 0) {
    return system_failure(folder, "cannot be locked");
  }
  std::unique_ptr<RunDirectory> run(new RunDirectory());  // private constructor
  run->sweep(folder);
  run->run_id_ = random_id();
  const fs::path path = folder / (std::string(prefix) + run->run_id_);
  if (::mkdir(path.c_str(), 0700) != 0) {
    return system_failure(path, "cannot be made");
  }
  run->path_ = path;
  PARBUCKLE_ASSIGN(run->lock_, FileLock::take(path / "lock"));
  return run;
}

Result<std::unique_ptr<RunDirectory>> RunDirectory::create_kept(const fs::path& folder,
                                                                const fs::path& owner) {
  PARBUCKLE_ASSIGN(auto run, create(folder));
  std::ofstream(run->path_ / "owner") << fs::absolute(owner).string() << "\n";
  if (first_line(run->path_ / "owner").empty()) {
    return system_failure(run->path_ / "owner", "cannot be written");
  }
  run->kept_ = true;
  return run;
}

Result<std::unique_ptr<RunDirectory>> RunDirectory::open(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    return Status(Code::not_found,
                  path.string() +
                      ": the folder with the state of the run is missing; is its drive "
                      "mounted?");
  }
  std::unique_ptr<RunDirectory> run(new RunDirectory());  // private constructor
  run->kept_ = true;
  run->run_id_ = path.filename().string();
  PARBUCKLE_ASSIGN(run->lock_, FileLock::take(path / "lock"));
  run->path_ = path;
  return run;
}

RunDirectory::~RunDirectory() {
  if (!path_.empty() && !kept_) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
}

}  // namespace parbuckle
