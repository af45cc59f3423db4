// The io_uring engine and the choice between engines. Where this machine has no io_uring its own tests are skipped by name.
#include "offload/storage/uring_file.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "offload/storage/open_file.h"
#include "tests/support/page_buffer.h"
#include "tests/support/scratch_folder.h"

namespace parbuckle {
namespace {

class Engines : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<BlockFile> open(OpenFileOptions options = {}) {
    options.ring = GetParam();
    auto file = open_block_file(folder_.path() / "pool", options);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return std::move(file).value();
  }
  ScratchFolder folder_{"engines"};
};

TEST_P(Engines, WhatIsWrittenIsReadBackAtAnySize) {
  const auto file = open();
  ASSERT_TRUE(file->preallocate(64 * mib).ok());
  for (const std::int64_t bytes : {page_bytes, 3 * page_bytes, 1 * mib, 17 * mib + page_bytes}) {
    PageBuffer out(bytes);
    PageBuffer back(bytes);
    out.fill_pattern(static_cast<std::uint32_t>(bytes));
    ASSERT_TRUE(file->write(5 * page_bytes, out.span()).ok());
    ASSERT_TRUE(file->read(5 * page_bytes, back.span()).ok());
    EXPECT_TRUE(same_bytes(out.span(), back.span())) << bytes;
  }
  EXPECT_TRUE(file->sync().ok());
}

TEST_P(Engines, CallersOfBothDirectionsRunTogetherInRegisteredMemory) {
  constexpr std::int64_t bytes = 4 * mib;
  constexpr std::int64_t callers = 4;
  PageBuffer out(callers * bytes);  // outlive the file, which may keep them registered
  PageBuffer back(callers * bytes);
  const auto file = open();
  ASSERT_TRUE(file->preallocate(callers * bytes).ok());
  file->register_memory(back.span());
  out.fill_pattern(11);
  std::vector<std::thread> threads;
  for (std::int64_t c = 0; c < callers; ++c) {
    threads.emplace_back([&, c] {
      const auto at = static_cast<std::size_t>(c * bytes);
      const auto part = out.span().subspan(at, bytes);
      const auto into = back.span().subspan(at, bytes);
      for (int round = 0; round < 4; ++round) {
        EXPECT_TRUE(file->write(c * bytes, part).ok());
        EXPECT_TRUE(file->read(c * bytes, into).ok());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(same_bytes(out.span(), back.span()));
}

TEST_P(Engines, ReadingBehindTheEndIsAnErrorThatNamesThePlace) {
  const auto file = open();
  ASSERT_TRUE(file->preallocate(1 * mib).ok());
  PageBuffer back(2 * mib);
  const Status status = file->read(512 * kib, back.span());
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_NE(status.message().find("pool: read"), std::string::npos) << status.message();
}

INSTANTIATE_TEST_SUITE_P(Kinds, Engines, testing::Bool(), [](const auto& engine) {
  return engine.param ? std::string("chosen") : std::string("positioned");
});

class Ring : public testing::Test {
 protected:
  void SetUp() override {
    const auto probe = UringFile::open(folder_.path() / "probe");
    if (!probe.ok()) {
      GTEST_SKIP() << "no io_uring here: " << probe.status().message();
    }
  }
  std::unique_ptr<BlockFile> open(const IoRingOptions& options) {
    auto file = UringFile::open(folder_.path() / "pool", options);
    EXPECT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE((*file)->preallocate(16 * mib).ok());
    return std::move(file).value();
  }
  ScratchFolder folder_{"ring"};
};

TEST_F(Ring, IsWhatIsChosen) {
  const auto file = open_block_file(folder_.path() / "chosen");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->engine().substr(0, 8), "io_uring");
  EXPECT_TRUE((*file)->warning().empty()) << (*file)->warning();
}

TEST_F(Ring, ShortAndInterruptedRequestsAreContinued) {
  std::atomic<int> calls{0};
  IoRingOptions options;
  options.tap = [&calls](const IoRange& request, int result) -> std::optional<int> {
    switch (calls++ % 4) {
      case 0:
        return -EINTR;
      case 1:
        return -EAGAIN;
      case 2:  // half of it, in whole pages
        return request.bytes > 2 * page_bytes
                   ? static_cast<int>(request.bytes / 2 / page_bytes * page_bytes)
                   : result;
      default:
        return result;
    }
  };
  const auto file = open(options);
  PageBuffer out(9 * mib);
  PageBuffer back(9 * mib);
  out.fill_pattern(3);
  ASSERT_TRUE(file->write(0, out.span()).ok());
  ASSERT_TRUE(file->read(0, back.span()).ok());
  EXPECT_TRUE(same_bytes(out.span(), back.span()));
  EXPECT_GT(calls, 2 * 9 * 2);
}

TEST_F(Ring, AnErrorOfTheDriveIsTheAnswerAndLaterRequestsWork) {
  IoRingOptions options;
  options.tap = [](const IoRange& request, int result) -> std::optional<int> {
    return request.direction == IoDirection::write && request.offset == 3 * mib ? -EIO : result;
  };
  const auto file = open(options);
  PageBuffer out(8 * mib);
  const Status status = file->write(0, out.span());
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_NE(status.message().find("3145728"), std::string::npos) << status.message();
  EXPECT_TRUE(file->write(4 * mib, out.span().first(1 * mib)).ok());
}

TEST_F(Ring, ADriveThatHangsIsReportedAfterTheDeadline) {
  PageBuffer back(4 * mib);
  IoRingOptions options;
  options.deadline_s = 0.2;
  options.tap = [](const IoRange& request, int result) -> std::optional<int> {
    return request.offset == 2 * mib ? std::nullopt : std::optional<int>(result);
  };
  const auto file = open(options);
  const Status status = file->read(0, back.span());
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_NE(status.message().find("2097152"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("0.2"), std::string::npos) << status.message();
}

/// What `body` says in a process of its own, where it may give up rights for good.
std::string in_child(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    return "no pipe";
  }
  const pid_t child = fork();
  if (child == 0) {
    const std::string said = body();
    const ssize_t ignored = write(ends[1], said.data(), said.size());
    _exit(ignored < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string said(4096, '\0');
  const ssize_t got = read(ends[0], said.data(), said.size());
  close(ends[0]);
  int state = 0;
  waitpid(child, &state, 0);
  said.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return WIFEXITED(state) ? said : "the child died: " + said;
}

/// io_uring_setup answers EPERM from here on, as under a container's seccomp profile.
bool deny_io_uring() {
  std::array<sock_filter, 4> rules{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = rules.size(), .filter = rules.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// The engine and its warning, once a page has gone to the file and come back.
std::string engine_and_warning(const std::filesystem::path& path, std::span<std::byte> memory) {
  const auto file = open_block_file(path);
  if (!file.ok()) {
    return file.status().message();
  }
  (*file)->register_memory(memory);
  const auto page = memory.first(page_bytes);
  for (const Status& status :
       {(*file)->preallocate(1 * mib), (*file)->write(0, page), (*file)->read(0, page)}) {
    if (!status.ok()) {
      return status.message();
    }
  }
  return std::string((*file)->engine()) + " | " + (*file)->warning();
}

TEST(Fallback, WhereIoUringIsForbiddenPositionedIoTakesOverWithOneWarning) {
  const ScratchFolder folder{"forbidden"};
  PageBuffer memory(1 * mib);
  const std::string said = in_child([&] {
    return deny_io_uring() ? engine_and_warning(folder.path() / "pool", memory.span())
                           : std::string("no seccomp");
  });
  if (said == "no seccomp") {
    GTEST_SKIP() << said;
  }
  EXPECT_EQ(said.substr(0, 10), "positioned") << said;
  EXPECT_NE(said.find("io_uring"), std::string::npos) << said;
}

TEST(Fallback, WithLittleLockedMemoryTheRingWorksWithoutRegistration) {
  const ScratchFolder folder{"memlock"};
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  PageBuffer memory(4 * mib);
  const std::string said = in_child([&]() -> std::string {
    const rlimit limit{.rlim_cur = 64 * kib, .rlim_max = 64 * kib};
    constexpr uid_t nobody = 65534;
    // Root may lock what it likes.
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (geteuid() == 0 && setuid(nobody) != 0)) {
      return "no limit";
    }
    return engine_and_warning(folder.path() / "pool", memory.span());
  });
  if (said == "no limit") {
    GTEST_SKIP() << said;
  }
  // Old kernels count the ring itself as locked memory: then the other engine takes over.
  EXPECT_TRUE(said.starts_with("io_uring") || said.starts_with("positioned")) << said;
  EXPECT_GT(said.size(), said.find('|') + 2) << "a warning is expected: " << said;
}

}  // namespace
}  // namespace parbuckle
