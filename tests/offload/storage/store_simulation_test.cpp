// The store on a drive that fails, tears, loses and corrupts as a seed says. Whatever happens: no read gives wrong bytes, no
// commit that was reported done is lost, and every answer is success or an error that says what is wrong.
//
// PARBUCKLE_SIMULATION_SEEDS=2000 runs that many seeds; PARBUCKLE_SIMULATION_FIRST=n begins with seed n.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "offload/storage/pool.h"
#include "tests/support/fault_file.h"
#include "tests/support/page_buffer.h"

namespace parbuckle {
namespace {

std::int64_t number_from_environment(const char* name, std::int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

/// Contents of every block, as the seed of its pattern; 0: zeros.
using Contents = std::vector<std::uint32_t>;

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : seed_(seed), random_(seed), drive_({.seed = seed}) {
    const int blocks = pick(1, 5);
    for (int b = 0; b < blocks; ++b) {
      layout_.blocks.push_back({.name = "block" + std::to_string(b),
                                .bytes = pick(1, 700) * page_bytes,
                                .slots = 2,
                                .starts_zero = pick(0, 1) == 1});
    }
    layout_.checkpoints = pick(0, 2);
    for (StoredBlock& block : layout_.blocks) {
      block.slots = static_cast<std::int32_t>(2 + layout_.checkpoints);
    }
    layout_.spill_bytes = 4 * page_bytes;
    layout_.run_state_bytes = 64;
    corrupting_ = pick(0, 2) == 0;
    every_ = pick(1, 3);
  }

  void run() {
    const int lives = pick(2, 4);
    for (int life = 0; life < lives && !testing::Test::HasFailure(); ++life) {
      const bool alive = life == 0 ? begin() : resume();
      if (alive) {
        steps(pick(1, 8));
      }
      pool_.reset();
      drive_.restart(faults(life + 1 == lives));
    }
    if (!testing::Test::HasFailure()) {
      drive_.restart({.seed = seed_});  // a last look without faults
      if (resume()) {
        read_all();
      }
    }
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed_ << (corrupting_ ? " (corrupting)" : "") << "\n"
                    << story_ << drive_.report();
    }
  }

  [[nodiscard]] std::int64_t commits() const { return commits_; }
  [[nodiscard]] std::int64_t recoveries() const { return recoveries_; }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  FaultOptions faults(bool calm) {
    FaultOptions options{.seed = seed_ + 1000 * random_()};
    if (calm) {
      return options;
    }
    if (pick(0, 2) > 0) {
      options.crash_at = pick(0, 80);
    }
    if (pick(0, 1) == 0) {
      options.short_move = options.failed = options.interrupted = options.no_space = 0.004;
      options.torn = 0.01;
    }
    if (corrupting_) {
      options.corrupt_read = options.corrupt_write = options.misdirected = 0.01;
    }
    return options;
  }

  bool begin() {
    auto pool = Pool::format(drive_.open("pool"), layout_);
    EXPECT_TRUE(pool.ok()) << pool.status().message();
    if (!pool.ok()) {
      return false;
    }
    take(std::move(pool).value());
    drive_.restart(faults(false));
    // The pool was opened before the restart: what it holds is opened again.
    auto again = Pool::recover(drive_.open("pool"), layout_.spill_bytes);
    EXPECT_EQ(again.status().code() == Code::ok, false) << "nothing was committed";
    pool = Pool::format(drive_.open("pool"), layout_);
    if (!pool.ok()) {
      return false;
    }
    take(std::move(pool).value());
    now_.assign(layout_.blocks.size(), 0);
    written_.assign(layout_.blocks.size(), false);
    return true;
  }

  void take(std::unique_ptr<Pool> pool) {
    pool_ = std::move(pool);
    extents_.clear();
    for (const StoredBlock& block : layout_.blocks) {
      extents_.push_back(pool_->extent(block.name, block.bytes, block.starts_zero).value());
    }
  }

  /// What a new process finds. False where it ends with an error, which must be an honest one.
  bool resume() {
    auto pool = Pool::recover(drive_.open("pool"), layout_.spill_bytes);
    if (!pool.ok()) {
      refused(pool.status());
      return false;
    }
    ++recoveries_;
    const std::int64_t step = (*pool)->versions().front().step;
    const bool fell_back = !(*pool)->warnings().empty();
    story_ += "recovered step " + std::to_string(step) + "\n";
    EXPECT_TRUE(step >= done_ || (corrupting_ && fell_back))
        << "step " << done_ << " was committed, step " << step << " came back";
    EXPECT_TRUE(history_.contains(step));
    EXPECT_EQ((*pool)->versions().front().run_state, std::to_string(step));
    take(std::move(pool).value());
    now_ = history_[step];
    written_.assign(layout_.blocks.size(), true);
    step_ = step;
    done_ = step;
    return true;
  }

  void refused(const Status& status) {
    story_ += "refused: " + status.message() + "\n";
    const bool by_drive = !drive_.injected().empty();
    if (by_drive && status.code() != Code::not_found) {
      EXPECT_NE(status.code(), Code::internal) << status.message();
      return;
    }
    // Nothing happened to this life's operations: only what the file holds can be the reason.
    EXPECT_TRUE(status.code() == Code::not_found
                    ? done_ == 0
                    : status.code() == Code::data_corrupt && corrupting_)
        << status.message();
  }

  void steps(int count) {
    for (int s = 0; s < count; ++s) {
      ++step_;
      for (std::size_t b = 0; b < extents_.size(); ++b) {
        if ((!written_[b] || pick(0, 3) > 0) && !write(b)) {
          return;
        }
      }
      if (pick(0, 2) == 0 && !read_all()) {
        return;
      }
      if (step_ % every_ == 0 && !commit()) {
        return;
      }
    }
  }

  bool write(std::size_t b) {
    if (layout_.blocks[b].starts_zero && !written_[b] && pick(0, 1) == 0) {
      return true;  // zeros for another step
    }
    const auto content = static_cast<std::uint32_t>(random_()) | 1U;
    PageBuffer data(layout_.blocks[b].bytes);
    data.fill_pattern(content);
    const Status status = pool_->write(extents_[b], 0, data.span());
    if (!status.ok()) {
      refused_alive(status);
      return false;
    }
    now_[b] = content;
    written_[b] = true;
    return true;
  }

  bool read_all() {
    for (std::size_t b = 0; b < extents_.size(); ++b) {
      PageBuffer wanted(layout_.blocks[b].bytes);
      if (now_[b] != 0) {
        wanted.fill_pattern(now_[b]);
      }
      PageBuffer back(layout_.blocks[b].bytes);
      const auto read = pool_->read(extents_[b], 0, back.span());
      if (!read.ok()) {
        refused_alive(read.status());
        return false;
      }
      EXPECT_TRUE(same_bytes(wanted.span(), back.span()))
          << layout_.blocks[b].name << " is silently wrong";
    }
    return true;
  }

  void refused_alive(const Status& status) {
    story_ += "stopped: " + status.message() + "\n";
    EXPECT_NE(status.code(), Code::internal) << status.message();
    EXPECT_TRUE(!drive_.injected().empty() || corrupting_) << "for no reason: " << status.message();
    EXPECT_TRUE(status.code() != Code::data_corrupt || corrupting_) << status.message();
  }

  bool commit() {
    history_[step_] = now_;  // an error may come after the record has become durable
    const Status status = pool_->commit(step_, std::to_string(step_), pick(0, 1) == 1);
    if (!status.ok()) {
      refused_alive(status);
      return false;
    }
    story_ += "committed step " + std::to_string(step_) + "\n";
    done_ = step_;
    ++commits_;
    return true;
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  FaultDrive drive_;
  StoreLayout layout_;
  bool corrupting_ = false;  // the drive changes bytes and says nothing
  int every_ = 1;            // steps between commits
  std::unique_ptr<Pool> pool_;
  std::vector<ExtentId> extents_;
  Contents now_;
  std::vector<bool> written_;
  std::map<std::int64_t, Contents> history_;  // by step, of every commit that was begun
  std::int64_t step_ = 0;
  std::int64_t done_ = 0;  // the last commit that was reported done
  std::int64_t commits_ = 0;
  std::int64_t recoveries_ = 0;
  std::string story_;
};

TEST(StoreSimulation, NoSeedLosesACommitOrReadsWrongBytes) {
  const std::int64_t first = number_from_environment("PARBUCKLE_SIMULATION_FIRST", 1);
  const std::int64_t count = number_from_environment("PARBUCKLE_SIMULATION_SEEDS", 200);
  std::int64_t commits = 0;
  std::int64_t recoveries = 0;
  for (std::int64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    Simulation simulation(static_cast<std::uint64_t>(seed));
    simulation.run();
    commits += simulation.commits();
    recoveries += simulation.recoveries();
  }
  EXPECT_GT(commits, 2 * count);
  EXPECT_GT(recoveries, count);
  std::printf("%lld seeds: %lld commits, %lld recoveries\n",
              static_cast<long long>(count),
              static_cast<long long>(commits),
              static_cast<long long>(recoveries));
}

}  // namespace
}  // namespace parbuckle
