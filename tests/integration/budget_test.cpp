// A budget is a promise: what cannot be kept is refused before anything is measured or written, and the process stays inside it from
// exec to exit, measuring included. Each run is a process of its own with an empty cache.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "tests/support/random_model.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/smallest_budget.h"

namespace parbuckle {
namespace {

struct Ended {
  int code = -1;
  std::string said;  // both streams
  std::int64_t peak_bytes = 0;
};

/// Runs the program and waits for it; its peak memory is the kernel's count.
Ended run_program(const std::vector<std::string>& arguments, const std::filesystem::path& cache) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    return {};
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    setenv("XDG_CACHE_HOME", cache.c_str(), 1);
    std::vector<char*> argv{const_cast<char*>(PARBUCKLE_PROGRAM)};
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    execv(PARBUCKLE_PROGRAM, argv.data());
    _exit(127);
  }
  close(ends[1]);
  Ended ended;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = read(ends[0], piece.data(), piece.size())) > 0;) {
    ended.said.append(piece.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int state = 0;
  rusage usage{};
  wait4(child, &state, 0, &usage);
  ended.code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  ended.peak_bytes = usage.ru_maxrss * kib;
  return ended;
}

class Budget : public testing::Test {
 protected:
  void SetUp() override {
    write_random_model(scratch_.path() / "model",
                       {.vocabulary = 20000, .width = 256, .intermediate = 768, .layers = 6});
    std::filesystem::create_directories(scratch_.path() / "nvme");
    std::ofstream data(scratch_.path() / "rows.jsonl");
    for (std::int64_t row = 0; row < 32; ++row) {
      data << "{\"input_ids\": [5";
      for (std::int64_t i = 0; i < 40 + row * 7; ++i) {
        data << ", " << (row * 31 + i * 7919) % 20000;
      }
      data << "]}\n";
    }
  }

  [[nodiscard]] std::string path(const char* name) const {
    return (scratch_.path() / name).string();
  }

  [[nodiscard]] std::vector<std::string> training(
      const std::string& budget,
      std::vector<std::string> more = {
          "--max-length", "256", "--gradient-accumulation-steps", "2"}) const {
    std::vector<std::string> all{"train",
                                 "--model",
                                 path("model"),
                                 "--data",
                                 path("rows.jsonl"),
                                 "--eval-data",
                                 path("rows.jsonl"),
                                 "--max-eval-rows",
                                 "4",
                                 "--output-dir",
                                 path("out"),
                                 "--overwrite-output-dir",
                                 "true",
                                 "--nvme-path",
                                 path("nvme"),
                                 "--host-memory",
                                 budget,
                                 "--max-steps",
                                 "2",
                                 "--logging-steps",
                                 "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  ScratchFolder scratch_{"budget"};
};

TEST_F(Budget, WhatIsTooSmallIsRefusedBeforeAnythingIsMeasuredOrWritten) {
  const std::filesystem::path cache = scratch_.path() / "cache";
  const Ended impossible = run_program(training("1MiB"), cache);
  EXPECT_NE(impossible.code, 0);
  const std::int64_t least = smallest_named(impossible.said);
  ASSERT_GT(least, 0) << impossible.said;
  const Ended short_of_one = run_program(training(mib_text(least - 1)), cache);
  EXPECT_NE(short_of_one.code, 0);
  EXPECT_EQ(smallest_named(short_of_one.said), least) << short_of_one.said;
  EXPECT_FALSE(std::filesystem::exists(cache)) << "nothing was measured";
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "out"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path() / "nvme"));
}

TEST_F(Budget, TheSmallestHoldsFromExecToExitMeasuringIncluded) {
  const std::filesystem::path cache = scratch_.path() / "cache";
  const std::int64_t least = smallest_named(run_program(training("1MiB"), cache).said);
  ASSERT_GT(least, 0);
  const Ended ended = run_program(training(mib_text(least)), cache);
  ASSERT_EQ(ended.code, 0) << ended.said;
  EXPECT_LE(ended.peak_bytes, least * mib) << ended.said;
  // What is declared for the process outside its arena is not more than it takes, within the larger of 16 MiB and 3 %.
  EXPECT_GE(ended.peak_bytes, least * mib - std::max(16 * mib, least * mib * 3 / 100))
      << ended.said;
}

TEST_F(Budget, RandomDrawsStayInside) {
  std::mt19937 random(40);
  const auto one_of = [&](const std::vector<std::string>& values) {
    return values[random() % values.size()];
  };
  const std::filesystem::path cache = scratch_.path() / "cache";
  const char* const asked = std::getenv("PARBUCKLE_DRAWS");
  const int draws = asked != nullptr ? std::stoi(asked) : 8;
  for (int draw = 0; draw < draws; ++draw) {
    const std::vector<std::string> chosen{"--per-device-train-batch-size",
                                          one_of({"1", "2", "3"}),
                                          "--gradient-accumulation-steps",
                                          one_of({"1", "2", "4"}),
                                          "--max-length",
                                          one_of({"32", "100", "256"}),
                                          "--max-grad-norm",
                                          one_of({"0", "1.0"}),
                                          "--activations",
                                          one_of({"keep", "spill", "recompute"}),
                                          "--optimizer-window",
                                          one_of({"after", "lazy"}),
                                          "--packing",
                                          one_of({"true", "false"})};
    std::string names;
    for (const std::string& word : chosen) {
      names += word + " ";
    }
    const std::int64_t least = smallest_named(run_program(training("1MiB", chosen), cache).said);
    ASSERT_GT(least, 0) << names;
    const std::int64_t budget = least + static_cast<std::int64_t>(random() % 60);
    const Ended ended = run_program(training(mib_text(budget), chosen), cache);
    ASSERT_EQ(ended.code, 0) << names << ended.said;
    EXPECT_LE(ended.peak_bytes, budget * mib) << names << ended.said;
  }
}

}  // namespace
}  // namespace parbuckle
