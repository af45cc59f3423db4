#include "offload/storage/drive.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <system_error>
#include <unistd.h>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

/// Name of a file system that keeps its files in memory; empty for a drive.
std::string memory_file_system(const std::filesystem::path& folder) {
  constexpr std::int64_t tmpfs_magic = 0x01021994;
  constexpr std::int64_t ramfs_magic = 0x858458f6;
  constexpr std::int64_t hugetlbfs_magic = 0x958458f6;
  struct statfs system {};
  if (::statfs(folder.c_str(), &system) == 0) {
    const std::int64_t type = system.f_type;
    if (type == tmpfs_magic) {
      return "tmpfs";
    }
    if (type == ramfs_magic || type == hugetlbfs_magic) {
      return "ramfs";
    }
  }
  struct stat status {};
  if (::stat(folder.c_str(), &status) == 0) {
    std::error_code error;
    const auto device =
        std::filesystem::canonical("/sys/dev/block/" + std::to_string(major(status.st_dev)) + ':' +
                                       std::to_string(minor(status.st_dev)),
                                   error);
    if (device.filename().string().starts_with("zram")) {
      return "zram";
    }
  }
  return {};
}

std::int64_t file_size_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return no_limit;
  }
  return static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(no_limit)));
}

/// Bytes the user's quota still allows; no_limit where there is none, or it cannot be asked.
std::int64_t quota_left(const std::filesystem::path& folder) {
#ifdef SYS_quotactl_fd
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return no_limit;
  }
  dqblk quota{};
  const long answer = ::syscall(  // NOLINT(google-runtime-int): the type of syscall()
      SYS_quotactl_fd,
      descriptor,
      QCMD(Q_GETQUOTA, USRQUOTA),
      ::getuid(),
      &quota);
  ::close(descriptor);
  if (answer != 0 || quota.dqb_bhardlimit == 0) {
    return no_limit;
  }
  const auto limit = static_cast<std::int64_t>(quota.dqb_bhardlimit) * kib;
  return std::max<std::int64_t>(0, limit - static_cast<std::int64_t>(quota.dqb_curspace));
#else
  return folder.empty() ? 0 : no_limit;
#endif
}

}  // namespace

Result<DriveSpace> drive_space(const std::filesystem::path& folder) {
  struct statvfs system {};
  if (::statvfs(folder.c_str(), &system) != 0) {
    const std::string message = folder.string() + ": " + std::strerror(errno);
    return errno == ENOENT ? Status(Code::not_found, message) : io_error(message);
  }
  const auto block = static_cast<std::int64_t>(system.f_frsize);
  DriveSpace space;
  space.capacity_bytes = static_cast<std::int64_t>(system.f_blocks) * block;
  space.free_bytes = static_cast<std::int64_t>(system.f_bavail) * block;
  space.limited_by = "free space";
  space.memory_file_system = memory_file_system(folder);
  const std::int64_t quota = quota_left(folder);
  if (quota < space.free_bytes) {
    space.free_bytes = quota;
    space.limited_by = "user quota";
  }
  const std::int64_t file_size = file_size_limit();
  if (file_size < space.free_bytes) {
    space.free_bytes = file_size;
    space.limited_by = "file-size limit (ulimit -f)";
  }
  return space;
}

Status check_drive(const std::filesystem::path& folder, std::int64_t bytes) {
  PARBUCKLE_ASSIGN(const DriveSpace space, drive_space(folder));
  const std::string figures = "needs " + format_size(bytes) + ", " + space.limited_by + " allows " +
                              format_size(space.free_bytes);
  if (!space.memory_file_system.empty()) {
    return invalid(folder.string() + ": is on " + space.memory_file_system +
                   ", which is memory and not a drive (" + figures +
                   "): choose a folder on a drive with --nvme-path");
  }
  if (bytes > space.free_bytes) {
    return exhausted(folder.string() + ": " + figures + ", short by " +
                     format_size(bytes - space.free_bytes));
  }
  return {};
}

}  // namespace parbuckle
