#include "offload/storage/drive.h"

#include <chrono>
#include <string>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "offload/storage/pool.h"
#include "tests/support/scratch_folder.h"

namespace parbuckle {
namespace {

TEST(Drive, KnowsItsFreeSpace) {
  const ScratchFolder folder("drive");
  auto space = drive_space(folder.path());
  ASSERT_TRUE(space.ok());
  EXPECT_GT(space->free_bytes, 0);
  EXPECT_GE(space->capacity_bytes, space->free_bytes);
  EXPECT_EQ(drive_space("no/such/folder").status().code(), Code::not_found);
}

TEST(Drive, MoreThanThereIsIsRefusedWithBothFiguresAndLeavesNothing) {
  const ScratchFolder folder("drive");
  auto pool = Pool::create({.folder = folder.path(), .bytes = 1024 * 1024 * gib});
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.status().code(), Code::resource_exhausted);
  const std::string message = pool.status().message();
  EXPECT_NE(message.find(format_size(1024 * 1024 * gib)), std::string::npos) << message;
  EXPECT_NE(message.find("free space allows"), std::string::npos) << message;
  EXPECT_TRUE(folder.empty());
}

TEST(Drive, AFileSizeLimitIsAnAnswerAndNotASignal) {
  const ScratchFolder folder("drive");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{.rlim_cur = 4 * mib, .rlim_max = 4 * mib};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto pool = Pool::create({.folder = folder.path(), .bytes = 40 * mib});
    const std::string message = pool.status().message();
    const bool right = pool.status().code() == Code::resource_exhausted &&
                       message.find("40.0 MiB") != std::string::npos &&
                       message.find("4.00 MiB") != std::string::npos &&
                       message.find("ulimit -f") != std::string::npos;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(folder.empty());
}

TEST(Drive, MemoryFileSystemsAreRefusedWithBothFigures) {
  const ScratchFolder folder("drive");
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=8m") != 0) {
    GTEST_SKIP() << "needs the right to mount an 8 MiB tmpfs";
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto pool = Pool::create({.folder = folder.path(), .bytes = 40 * mib});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_TRUE(folder.empty());
  ::umount(folder.path().c_str());
  ASSERT_FALSE(pool.ok());
  const std::string message = pool.status().message();
  EXPECT_NE(message.find("tmpfs"), std::string::npos) << message;
  EXPECT_NE(message.find("40.0 MiB"), std::string::npos) << message;
  EXPECT_NE(message.find("8.00 MiB"), std::string::npos) << message;
}

}  // namespace
}  // namespace parbuckle
