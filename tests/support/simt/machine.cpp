#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstring>
#include <simt/machine.h>
#include <simt/simt.h>
#include <utility>

namespace parbuckle::simt {
namespace {

namespace context = boost::context;

constexpr std::size_t stack_bytes = 64 * 1024;

std::string place(std::int64_t at) {
  return "shared byte " + std::to_string(at);
}

}  // namespace

/// One fiber per thread of a block, kept for the next block: each runs body after body.
struct Machine::Fibers {
  std::vector<context::fiber> threads;
  context::fiber scheduler;

  void leave(Machine& machine) {
    scheduler = std::move(scheduler).resume();
    machine.update_here();
  }

  void resume(Machine& machine, std::size_t thread) {
    machine.current_ = static_cast<int>(thread);
    threads[thread] = std::move(threads[thread]).resume();
    machine.current_ = nobody;
  }

  context::fiber make(Machine& machine) {
    return context::fiber(std::allocator_arg,
                          context::fixedsize_stack(stack_bytes),
                          [this, &machine](context::fiber&& from) {
                            scheduler = std::move(from);
                            machine.update_here();
                            while (true) {
                              machine.body_(machine.kernel_, Thread(machine, machine.current_));
                              machine.end_thread();
                              leave(machine);
                            }
                            return std::move(scheduler);
                          });
  }
};

Machine::Machine(std::uint64_t seed) : fibers_(std::make_unique<Fibers>()), random_(seed) {
}

Machine::~Machine() = default;

/// splitmix64
std::uint64_t Machine::draw() {
  random_ += 0x9E3779B97F4A7C15U;
  std::uint64_t z = random_;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

template <class T>
void Machine::shuffle(std::vector<T>& values) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[draw() % i]);
  }
}

void Machine::report(Mistake mistake, const std::string& what) {
  if (!saw(mistake)) {
    faults_.push_back({mistake,
                       "block " + std::to_string(block_x_) + "," + std::to_string(block_y_) +
                           " thread " + std::to_string(current_) + ": " + what});
  }
}

bool Machine::saw(Mistake mistake) const {
  return std::any_of(
      faults_.begin(), faults_.end(), [&](const Fault& fault) { return fault.mistake == mistake; });
}

void Machine::run(const Grid& grid, int threads, KernelBody body, const void* kernel) {
  grid_ = grid;
  threads_ = threads;
  body_ = body;
  kernel_ = kernel;
  while (fibers_->threads.size() < static_cast<std::size_t>(threads)) {
    fibers_->threads.push_back(fibers_->make(*this));
  }
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(grid.x * grid.y));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = static_cast<std::int64_t>(i);
  }
  shuffle(blocks);
  for (const std::int64_t block : blocks) {
    block_x_ = block % grid.x;
    block_y_ = block / grid.x;
    run_block();
  }
}

void Machine::run_block() {
  shared_.assign(static_cast<std::size_t>(grid_.shared_bytes), std::byte{0xFF});
  granules_.assign(static_cast<std::size_t>((grid_.shared_bytes + 1) / granule_bytes), {});
  warp_epochs_.assign(static_cast<std::size_t>(threads_ / warp_size), 0);
  block_epoch_ = 0;
  lanes_.assign(static_cast<std::size_t>(threads_), Lane{.state = State::runnable});
  while (resume_a_warp() || release()) {
  }
  const auto stuck = std::count_if(
      lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.state != State::ended; });
  if (stuck > 0) {
    report(Mistake::divergence,
           std::to_string(stuck) + " threads of the block wait for threads that never come");
    fibers_->threads.clear();  // unwinds their stacks
    while (fibers_->threads.size() < static_cast<std::size_t>(threads_)) {
      fibers_->threads.push_back(fibers_->make(*this));
    }
  }
}

/// Runs the lanes of one warp, drawn among those that can, until each waits or has ended.
bool Machine::resume_a_warp() {
  std::vector<int> warps;
  for (int thread = 0; thread < threads_; ++thread) {
    if (lanes_[static_cast<std::size_t>(thread)].state == State::runnable &&
        (warps.empty() || warps.back() != thread / warp_size)) {
      warps.push_back(thread / warp_size);
    }
  }
  if (warps.empty()) {
    return false;
  }
  const int warp = warps[draw() % warps.size()];
  std::vector<std::size_t> threads;
  for (int lane = 0; lane < warp_size; ++lane) {
    threads.push_back(static_cast<std::size_t>(warp * warp_size + lane));
  }
  shuffle(threads);
  for (const std::size_t thread : threads) {
    if (lanes_[thread].state == State::runnable) {
      fibers_->resume(*this, thread);
    }
  }
  release_warp(warp);
  return true;
}

/// Lets the warp go on if all of its lanes have come to the same operation.
bool Machine::release_warp(int warp) {
  const std::span<Lane> lanes(lanes_.data() + static_cast<std::ptrdiff_t>(warp) * warp_size,
                              warp_size);
  std::array<void*, warp_size> operands{};
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].state != State::at_warp) {
      return false;
    }
    operands[i] = lanes[i].operand;
  }
  for (const Lane& lane : lanes) {
    if (lane.collective != lanes[0].collective) {
      report(Mistake::divergence,
             "lanes of warp " + std::to_string(warp) + " are at different warp operations");
      return false;
    }
  }
  lanes[0].collective(operands);
  for (Lane& lane : lanes) {
    lane.state = State::runnable;
  }
  return true;
}

/// Lets the block go on if all of its threads have come to the barrier. A thread that has ended never comes.
bool Machine::release() {
  const bool all = std::all_of(
      lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.state == State::at_block; });
  if (!all) {
    return false;
  }
  ++block_epoch_;
  for (Lane& lane : lanes_) {
    lane.state = State::runnable;
  }
  return true;
}

void Machine::end_thread() {
  Lane& lane = lanes_[static_cast<std::size_t>(current_)];
  lane.state = State::ended;
  if (!lane.groups.empty() || !lane.open.empty()) {
    report(Mistake::in_flight, "ended before its asynchronous copies did");
  }
}

void Machine::wait_for_block() {
  lanes_[static_cast<std::size_t>(current_)].state = State::at_block;
  fibers_->leave(*this);
}

void Machine::wait_for_warp(Collective collective, void* operand) {
  Lane& lane = lanes_[static_cast<std::size_t>(current_)];
  lane.state = State::at_warp;
  lane.collective = collective;
  lane.operand = operand;
  fibers_->leave(*this);
}

void Machine::sync_warp() {
  auto* epoch = &warp_epochs_[static_cast<std::size_t>(current_ / warp_size)];
  wait_for_warp(
      [](std::span<void* const, warp_size> lanes) { ++*static_cast<std::uint32_t*>(lanes[0]); },
      epoch);
}

void Machine::update_here() {
  here_ = {current_, block_epoch_, warp_epochs_[static_cast<std::size_t>(current_ / warp_size)]};
}

bool Machine::ordered_in_warp(const Access& before) const {
  if (before.thread == several_warps) {
    return false;
  }
  const int warp = before.thread >= 0 ? before.thread / warp_size : several_lanes - before.thread;
  return warp == current_ / warp_size && before.warp_epoch < here_.warp_epoch;
}

/// Remembers this read beside earlier ones that a write would have to be ordered after, too.
void Machine::note_read(Granule& granule) const {
  const Access& before = granule.read;
  if (ordered(before)) {
    granule.read = here_;
    return;
  }
  const int warp = current_ / warp_size;
  const bool same_warp = before.thread >= 0 ? before.thread / warp_size == warp
                                            : before.thread == several_lanes - warp;
  granule.read = here_;
  granule.read.thread = same_warp ? several_lanes - warp : several_warps;
}

bool Machine::outside(std::int64_t at) {
  report(Mistake::out_of_bounds,
         "byte " + std::to_string(at) + " of " + std::to_string(grid_.shared_bytes) +
             " bytes of shared memory");
  return false;
}

void Machine::check_read(Granule& granule, std::int64_t at) {
  if (granule.in_flight) {
    report(Mistake::in_flight, "reads " + place(at) + " before the copy into it was waited for");
  } else if (granule.write.thread == nobody) {
    report(Mistake::unwritten, "reads " + place(at) + " before anyone wrote it");
  } else if (!ordered(granule.write)) {
    report(Mistake::race,
           "reads " + place(at) + ", written by thread " + std::to_string(granule.write.thread) +
               " since the last barrier");
  }
  note_read(granule);
}

bool Machine::shared_write(std::int64_t at, std::int64_t bytes) {
  if (at < 0 || at + bytes > grid_.shared_bytes) {
    return outside(at);
  }
  for (std::int64_t i = at / granule_bytes; i * granule_bytes < at + bytes; ++i) {
    Granule& granule = granules_[static_cast<std::size_t>(i)];
    if (granule.in_flight) {
      report(Mistake::in_flight, "writes " + place(at) + " while a copy into it is in flight");
    }
    if (!ordered(granule.write) || !ordered(granule.read)) {
      report(Mistake::race,
             "writes " + place(at) + ", used by another thread since the last barrier");
    }
    granule.write = here_;
    granule.read = {};
  }
  return true;
}

void Machine::copy_async(std::int64_t to, const std::byte* from, std::int64_t bytes) {
  if (!shared_write(to, bytes)) {
    return;
  }
  for (std::int64_t i = to / granule_bytes; i * granule_bytes < to + bytes; ++i) {
    granules_[static_cast<std::size_t>(i)].in_flight = true;
  }
  lanes_[static_cast<std::size_t>(current_)].open.push_back({to, from, bytes});
}

void Machine::commit_copies() {
  Lane& lane = lanes_[static_cast<std::size_t>(current_)];
  lane.groups.push_back(std::exchange(lane.open, {}));
}

void Machine::wait_copies(std::size_t pending) {
  Lane& lane = lanes_[static_cast<std::size_t>(current_)];
  while (lane.groups.size() > pending) {
    for (const Copy& copy : lane.groups.front()) {
      land(copy);
    }
    lane.groups.erase(lane.groups.begin());
  }
}

/// A null source is zeros, as cp.async fills what it was told not to read.
void Machine::land(const Copy& copy) {
  for (std::int64_t i = copy.to / granule_bytes; i * granule_bytes < copy.to + copy.bytes; ++i) {
    granules_[static_cast<std::size_t>(i)].in_flight = false;
    granules_[static_cast<std::size_t>(i)].write = here_;
  }
  if (copy.from == nullptr) {
    std::memset(shared(copy.to), 0, static_cast<std::size_t>(copy.bytes));
  } else {
    std::memcpy(shared(copy.to), copy.from, static_cast<std::size_t>(copy.bytes));
  }
}

}  // namespace parbuckle::simt
