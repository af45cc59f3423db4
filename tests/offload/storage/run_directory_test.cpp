#include "offload/storage/run_directory.h"

#include <csignal>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"

namespace parbuckle {
namespace {

TEST(RunDirectory, IsRemovedAtTheEnd) {
  const ScratchFolder folder("run_directory");
  {
    auto run = RunDirectory::create(folder.path());
    ASSERT_TRUE(run.ok()) << run.status().message();
    std::ofstream((*run)->path() / "pool") << "bytes";
    EXPECT_TRUE(std::filesystem::exists((*run)->path() / "lock"));
  }
  EXPECT_TRUE(folder.empty());
}

TEST(RunDirectory, LivingRunsStandBesideEachOther) {
  const ScratchFolder folder("run_directory");
  auto first = RunDirectory::create(folder.path());
  auto second = RunDirectory::create(folder.path());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first)->path(), (*second)->path());
  EXPECT_EQ((*second)->swept(), 0);
  EXPECT_TRUE(std::filesystem::exists((*first)->path()));
}

TEST(RunDirectory, SweepsWhatAKilledRunLeft) {
  const ScratchFolder folder("run_directory");
  std::ofstream(folder.path() / "parbuckle-notes.txt") << "a file of the user's";
  std::filesystem::create_directory(folder.path() / "other");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto run = RunDirectory::create(folder.path());
    if (run.ok()) {
      std::ofstream((*run)->path() / "pool") << "bytes";
      ::kill(::getpid(), SIGKILL);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto run = RunDirectory::create(folder.path());
  ASSERT_TRUE(run.ok());
  EXPECT_EQ((*run)->swept(), 1);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "parbuckle-notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "other"));
}

TEST(RunDirectory, NamesAFolderThatIsNotThere) {
  auto run = RunDirectory::create("no/such/folder");
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.status().message().find("no/such/folder"), std::string::npos);
}

}  // namespace
}  // namespace parbuckle
