// Runs kernels on the host so that their mistakes show. The threads of a block are fibers; barriers, shuffles and matrix
// instructions are points where fibers wait for each other; warps, and lanes within a warp, are resumed in an order drawn
// from a seed. Blocks of a grid run one after another, also in drawn order. Every access goes through a view that knows its
// bounds; accesses to shared memory are compared with earlier ones: two of them, one a write, need a barrier in between.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace parbuckle::simt {

inline constexpr int warp_size = 32;

struct Grid {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t shared_bytes = 0;
};

enum class Mistake {
  out_of_bounds,  // of a view
  unwritten,      // shared memory read before anything was written to it
  race,           // two threads, no barrier between them, one of them writes
  in_flight,      // shared memory used while an asynchronous copy into it has not been waited for
  divergence,     // threads wait for each other at different places, or for one that has ended
  misaligned,     // of an access wider than its element
};

struct Fault {
  Mistake mistake;
  std::string text;  // block, thread, address
};

class Thread;

/// What one lane brings to an operation of its whole warp; called once for all 32, in lane order.
using Collective = void (*)(std::span<void* const, warp_size> lanes);
using KernelBody = void (*)(const void* kernel, const Thread& thread);

/// For one host thread at a time.
class Machine {
 public:
  explicit Machine(std::uint64_t seed);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  Machine(Machine&&) = delete;
  Machine& operator=(Machine&&) = delete;

  /// Runs every thread of the grid to its end, unless they wait for each other forever.
  void run(const Grid& grid, int threads, KernelBody body, const void* kernel);

  /// The first of each mistake, in the order they were made; a machine without any has seen none.
  [[nodiscard]] const std::vector<Fault>& faults() const { return faults_; }
  [[nodiscard]] bool saw(Mistake mistake) const;
  void forget_faults() { faults_.clear(); }

  // What the views and Thread call.
  void report(Mistake mistake, const std::string& what);
  void wait_for_block();
  void wait_for_warp(Collective collective, void* operand);
  void sync_warp();
  /// Shared memory, addresses in bytes. False: out of bounds, nothing may be touched.
  bool shared_read(std::int64_t at, std::int64_t bytes) {
    if (at < 0 || at + bytes > grid_.shared_bytes) {
      return outside(at);
    }
    for (std::int64_t i = at / granule_bytes; i * granule_bytes < at + bytes; ++i) {
      Granule& granule = granules_[static_cast<std::size_t>(i)];
      // Nearly every read: written before the last barrier, and read by nobody else since.
      if (granule.write.thread == nobody || granule.in_flight || !ordered(granule.write) ||
          !ordered(granule.read)) {
        check_read(granule, at);
      } else {
        granule.read = here_;
      }
    }
    return true;
  }
  bool shared_write(std::int64_t at, std::int64_t bytes);
  [[nodiscard]] std::byte* shared(std::int64_t at) { return shared_.data() + at; }
  void copy_async(std::int64_t to, const std::byte* from, std::int64_t bytes);
  void commit_copies();
  /// All groups but the last `pending` of this thread land.
  void wait_copies(std::size_t pending);

 private:
  struct Fibers;
  struct Access {
    std::int32_t thread = nobody;
    std::uint32_t block_epoch = 0;
    std::uint32_t warp_epoch = 0;
  };
  struct Granule {  // two bytes
    Access write;
    Access read;
    bool in_flight = false;
  };
  struct Copy {
    std::int64_t to;
    const std::byte* from;
    std::int64_t bytes;
  };
  enum class State { runnable, at_block, at_warp, ended };
  struct Lane {
    State state = State::ended;
    Collective collective = nullptr;
    void* operand = nullptr;
    std::vector<std::vector<Copy>> groups;  // committed
    std::vector<Copy> open;
  };
  static constexpr std::int32_t nobody = -1;
  static constexpr std::int32_t several_warps = -2;
  static constexpr std::int32_t several_lanes = -3;  // minus the warp
  static constexpr std::int64_t granule_bytes = 2;

  std::uint64_t draw();
  template <class T>
  void shuffle(std::vector<T>& values);
  void run_block();
  bool resume_a_warp();
  bool release();
  bool release_warp(int warp);
  void end_thread();
  bool outside(std::int64_t at);
  void check_read(Granule& granule, std::int64_t at);
  /// Whether `before` is known to have happened before what the current thread does now.
  [[nodiscard]] bool ordered(const Access& before) const {
    return before.block_epoch < here_.block_epoch || before.thread == here_.thread ||
           before.thread == nobody || ordered_in_warp(before);
  }
  [[nodiscard]] bool ordered_in_warp(const Access& before) const;
  void note_read(Granule& granule) const;
  void update_here();
  void land(const Copy& copy);

  std::unique_ptr<Fibers> fibers_;
  std::uint64_t random_;
  std::vector<Fault> faults_;
  std::vector<Lane> lanes_;
  std::vector<std::byte> shared_;
  std::vector<Granule> granules_;
  std::vector<std::uint32_t> warp_epochs_;
  std::uint32_t block_epoch_ = 0;
  Access here_;  // what the current thread does now
  int threads_ = 0;
  int current_ = nobody;
  Grid grid_;
  std::int64_t block_x_ = 0;
  std::int64_t block_y_ = 0;
  KernelBody body_ = nullptr;
  const void* kernel_ = nullptr;
  friend class Thread;
};

}  // namespace parbuckle::simt
