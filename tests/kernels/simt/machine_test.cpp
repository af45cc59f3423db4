// The harness itself: right kernels give right values whatever the order of warps, and each planted mistake is found.
#include <cmath>
#include <numeric>
#include <simt/simt.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace parbuckle::simt {
namespace {

constexpr std::uint64_t seeds[] = {1, 2, 3, 4, 5};

template <class Kernel>
void run(Machine& machine, const Grid& grid, const Kernel& kernel) {
  ASSERT_TRUE(launch(Queue{&machine}, grid, kernel).ok());
}

/// Reverses 128 values through shared memory; the plans leave something out.
enum class Plan { right, no_barrier, no_second_barrier, past_the_end, unwritten };

template <Plan plan>
struct Reverse {
  static constexpr int threads = 128;
  Global<const float> from;
  Global<float> to;

  SIMT_DEVICE void operator()(const Thread& t) const {
    const Shared<float> tile = t.shared<float>(0, threads);
    const int rounds = plan == Plan::no_barrier ? 1 : 2;
    for (int round = 0; round < rounds; ++round) {
      if (plan != Plan::unwritten || t.index() != 5) {
        tile[t.index()] = from[t.block() * threads + t.index()];
      }
      if (plan != Plan::no_barrier) {
        t.sync();
      }
      const int other = threads - 1 - t.index() + (plan == Plan::past_the_end ? 1 : 0);
      to[t.block() * threads + t.index()] = tile[other];
      if (plan != Plan::no_second_barrier) {
        t.sync();
      }
    }
  }
};

template <Plan plan>
std::vector<float> reverse(Machine& machine) {
  std::vector<float> from(3 * 128);
  std::iota(from.begin(), from.end(), 0.0F);
  std::vector<float> to(from.size(), NAN);
  run(machine,
      {.x = 3, .shared_bytes = 128 * 4},
      Reverse<plan>{{machine, from.data(), 384}, {machine, to.data(), 384}});
  return to;
}

TEST(Simt, ARightKernelIsRightForEveryOrderOfWarps) {
  for (const std::uint64_t seed : seeds) {
    Machine machine(seed);
    const auto to = reverse<Plan::right>(machine);
    EXPECT_TRUE(machine.faults().empty()) << machine.faults()[0].text;
    for (std::size_t i = 0; i < to.size(); ++i) {
      ASSERT_EQ(to[i], static_cast<float>(i / 128 * 128 + 127 - i % 128));
    }
  }
}

TEST(Simt, FindsAMissingBarrier) {
  int wrong = 0;
  for (const std::uint64_t seed : seeds) {
    Machine machine(seed);
    const auto to = reverse<Plan::no_barrier>(machine);
    EXPECT_TRUE(machine.saw(Mistake::race) || machine.saw(Mistake::unwritten));
    wrong += to[0] == 127.0F && to[127] == 0.0F ? 0 : 1;
  }
  EXPECT_GT(wrong, 0) << "the order of warps should show in the values as well";
}

TEST(Simt, FindsAWriteOverWhatOthersStillRead) {
  for (const std::uint64_t seed : seeds) {
    Machine machine(seed);
    reverse<Plan::no_second_barrier>(machine);
    EXPECT_TRUE(machine.saw(Mistake::race));
  }
}

TEST(Simt, FindsAccessesOutOfBounds) {
  Machine machine(1);
  reverse<Plan::past_the_end>(machine);
  EXPECT_TRUE(machine.saw(Mistake::out_of_bounds));
  std::vector<float> few(100);
  Machine other(1);
  run(other,
      {.shared_bytes = 128 * 4},
      Reverse<Plan::right>{{other, few.data(), 100}, {other, few.data(), 100}});
  ASSERT_TRUE(other.saw(Mistake::out_of_bounds));
  EXPECT_NE(other.faults()[0].text.find("of 100 in device memory"), std::string::npos);
}

TEST(Simt, FindsReadsOfWhatNobodyWrote) {
  Machine machine(1);
  reverse<Plan::unwritten>(machine);
  EXPECT_TRUE(machine.saw(Mistake::unwritten));
}

/// Lanes of one warp pass values through shared memory.
template <bool with_sync>
struct NeighbourInWarp {
  static constexpr int threads = 64;
  Global<float> to;
  SIMT_DEVICE void operator()(const Thread& t) const {
    const Shared<float> tile = t.shared<float>(0, threads);
    tile[t.index()] = static_cast<float>(t.index());
    if (with_sync) {
      t.sync_warp();
    }
    to[t.index()] = tile[t.warp() * warp_size + (t.lane() + 1) % warp_size];
  }
};

TEST(Simt, LanesOfAWarpNeedTheirOwnBarrier) {
  std::vector<float> to(64);
  Machine machine(7);
  run(machine, {.shared_bytes = 256}, NeighbourInWarp<true>{{machine, to.data(), 64}});
  EXPECT_TRUE(machine.faults().empty());
  EXPECT_EQ(to[31], 0.0F);
  EXPECT_EQ(to[32], 33.0F);
  run(machine, {.shared_bytes = 256}, NeighbourInWarp<false>{{machine, to.data(), 64}});
  EXPECT_TRUE(machine.saw(Mistake::race) || machine.saw(Mistake::unwritten));
}

/// Sums of warps by shuffles; a wrong mask is a wrong lane.
template <int first_mask>
struct WarpSum {
  static constexpr int threads = 96;
  Global<float> to;
  SIMT_DEVICE void operator()(const Thread& t) const {
    auto sum = static_cast<float>(t.index());
    for (int mask = first_mask; mask > 0; mask /= 2) {
      sum += t.shuffle_xor(sum, mask);
    }
    to[t.index()] = sum;
  }
};

TEST(Simt, ShufflesExchangeValuesAndAWrongLaneIsAWrongSum) {
  std::vector<float> to(96);
  Machine machine(3);
  run(machine, {}, WarpSum<16>{{machine, to.data(), 96}});
  EXPECT_TRUE(machine.faults().empty());
  for (std::size_t i = 0; i < to.size(); ++i) {
    EXPECT_EQ(to[i], static_cast<float>(32 * (i / 32 * 32) + 496));
  }
  run(machine, {}, WarpSum<8>{{machine, to.data(), 96}});
  EXPECT_NE(to[0], 496.0F);
}

/// A barrier that half of the block does not come to, or a shuffle that a lane leaves out.
template <bool whole_warps>
struct Divergent {
  static constexpr int threads = 64;
  SIMT_DEVICE void operator()(const Thread& t) const {
    if (whole_warps ? t.warp() == 0 : t.lane() > 3) {
      if (whole_warps) {
        t.sync();
      } else {
        t.shuffle(1.0F, 5);
      }
    }
  }
};

TEST(Simt, FindsBarriersThatNotAllThreadsReach) {
  Machine machine(1);
  run(machine, {.x = 2}, Divergent<true>{});
  EXPECT_TRUE(machine.saw(Mistake::divergence));
  machine.forget_faults();
  run(machine, {}, Divergent<false>{});
  EXPECT_TRUE(machine.saw(Mistake::divergence));
  machine.forget_faults();
  const auto to = reverse<Plan::right>(machine);  // and goes on
  EXPECT_TRUE(machine.faults().empty());
  EXPECT_EQ(to[0], 127.0F);
}

/// 16 bytes per thread by asynchronous copy, two stages.
enum class CopyPlan { right, no_wait, no_barrier, one_too_few, misaligned };

template <CopyPlan plan>
struct AsyncCopy {
  static constexpr int threads = 64;
  Global<const float> from;
  Global<float> to;
  SIMT_DEVICE void operator()(const Thread& t) const {
    const Shared<float> tile = t.shared<float>(0, 8 * threads);
    for (int stage = 0; stage < 2; ++stage) {
      const int at = stage * 4 * threads + 4 * t.index();
      t.copy_async(tile, at, from, at + (plan == CopyPlan::misaligned && at == 0 ? 1 : 0));
      t.commit_copies();
    }
    for (int stage = 0; stage < 2; ++stage) {
      if (plan != CopyPlan::no_wait) {
        if (stage == 0 || plan == CopyPlan::one_too_few) {
          t.wait_copies<1>();
        } else {
          t.wait_copies<0>();
        }
      }
      if (plan != CopyPlan::no_barrier) {
        t.sync();
      }
      const int first = stage * 4 * threads;
      for (int i = 0; i < 4; ++i) {
        to[first + 4 * t.index() + i] = tile[first + 4 * (threads - 1 - t.index()) + i];
      }
    }
    if (plan == CopyPlan::no_wait || plan == CopyPlan::one_too_few) {
      t.wait_copies<0>();
    }
  }
};

template <CopyPlan plan>
std::vector<float> copy(Machine& machine) {
  std::vector<float> from(4 * 128);
  std::iota(from.begin(), from.end(), 0.0F);
  std::vector<float> to(from.size(), NAN);
  run(machine,
      {.shared_bytes = 2048},
      AsyncCopy<plan>{{machine, from.data(), 512}, {machine, to.data(), 512}});
  return to;
}

TEST(Simt, AsynchronousCopiesLandAtTheirWait) {
  for (const std::uint64_t seed : seeds) {
    Machine right(seed);
    const auto to = copy<CopyPlan::right>(right);
    EXPECT_TRUE(right.faults().empty());
    EXPECT_EQ(to[0], 252.0F);
    EXPECT_EQ(to[511], 259.0F);
    Machine no_wait(seed);
    EXPECT_NE(copy<CopyPlan::no_wait>(no_wait)[0], 252.0F);
    EXPECT_TRUE(no_wait.saw(Mistake::in_flight));
    Machine too_few(seed);
    copy<CopyPlan::one_too_few>(too_few);
    EXPECT_TRUE(too_few.saw(Mistake::in_flight));
    Machine no_barrier(seed);
    copy<CopyPlan::no_barrier>(no_barrier);
    EXPECT_TRUE(no_barrier.saw(Mistake::race) || no_barrier.saw(Mistake::unwritten));
    Machine misaligned(seed);
    copy<CopyPlan::misaligned>(misaligned);
    EXPECT_TRUE(misaligned.saw(Mistake::misaligned));
  }
}

}  // namespace
}  // namespace parbuckle::simt
