// One direction between two tiers. Transfers start in the lane's order and end in it. Those of a drive are cut into many
// requests by the storage engine, and several are under way at once, so that small blocks keep its queue as full as large ones
// do; those of a link are copies on a stream of the device, one at a time.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/base/workload.h"
#include "kernels/runtime/device.h"
#include "offload/storage/pool.h"
#include "offload/transfer/progress.h"

namespace parbuckle {

/// One transfer of a step, ready to run.
struct LaneItem {
  TransferId transfer;
  ExtentId extent;
  Role role = Role::weight;
  std::byte* data =
      nullptr;  // in the lane's nearer memory: the device's over a link, the host's to a drive
  std::byte* host = nullptr;  // over a link: the host's side
  std::int64_t bytes = 0;     // whole pages
  std::int32_t after_task = -1;
  std::int32_t after_host_task = -1;
  std::span<const TransferId> after_transfers;
  bool skipped = false;          // keeps its place in the order and moves nothing
  bool allow_unwritten = false;  // reading what was never written gives zeros
};

/// Told around every transfer, on any of the lane's threads; begins come in the lane's order, and so do ends. An error stops
/// the step.
class TransferWatch {
 public:
  TransferWatch(const TransferWatch&) = delete;
  TransferWatch& operator=(const TransferWatch&) = delete;
  TransferWatch(TransferWatch&&) = delete;
  TransferWatch& operator=(TransferWatch&&) = delete;
  virtual ~TransferWatch() = default;

  virtual Status transfer_begins(TransferId transfer, bool skipped) = 0;
  virtual Status transfer_ends(TransferId transfer, bool skipped) = 0;

 protected:
  TransferWatch() = default;
};

/// Bytes that crossed the lane, by role.
using RoleCounters = std::array<std::int64_t, role_count>;

class LaneRunner {
 public:
  /// A lane of the drive: `kind` is nvme_read or nvme_write. lane_depth(kind) threads, which sleep in the pool.
  static Result<std::unique_ptr<LaneRunner>> create(LaneKind kind, Pool& pool);
  /// A lane of the link: `kind` is h2d or d2h, `stream` is the lane's own.
  static Result<std::unique_ptr<LaneRunner>> create(LaneKind kind, std::unique_ptr<Stream> stream);
  LaneRunner(const LaneRunner&) = delete;
  LaneRunner& operator=(const LaneRunner&) = delete;
  LaneRunner(LaneRunner&&) = delete;
  LaneRunner& operator=(LaneRunner&&) = delete;
  ~LaneRunner();

  /// Starts a step's items on the lane's threads; they, `progress` and `watch` stay until finish() has returned.
  void start(std::span<const LaneItem> items, Progress& progress, TransferWatch& watch);
  /// Blocks until all items of start() have ended, or the step has failed and nothing is under way any more.
  void finish();
  /// Runs one item on the calling thread, without waiting for anything: the serial debug mode.
  /// REQUIRES: between finish() and start().
  bool run(const LaneItem& item, Progress& progress, TransferWatch& watch);

  /// Of all steps. REQUIRES: between finish() and start().
  [[nodiscard]] const RoleCounters& bytes() const { return bytes_; }

 private:
  LaneRunner(LaneKind kind, Pool* pool, std::unique_ptr<Stream> stream)
      : kind_(kind), pool_(pool), stream_(std::move(stream)) {}
  static Result<std::unique_ptr<LaneRunner>> started(std::unique_ptr<LaneRunner> lane);
  void work();
  bool serve_next();
  const LaneItem* begin_next();
  bool end(std::size_t position, Result<std::int64_t> moved);
  /// Bytes that really moved.
  Result<std::int64_t> move(const LaneItem& item);

  LaneKind kind_;
  Pool* pool_;
  std::unique_ptr<Stream> stream_;
  RoleCounters bytes_{};

  std::span<const LaneItem> items_;  // of the step
  Progress* progress_ = nullptr;
  TransferWatch* watch_ = nullptr;

  std::mutex begin_mutex_;  // held by the one thread that waits for the next item's conditions
  std::size_t next_ = 0;    // item to begin

  std::mutex mutex_;
  std::condition_variable changed_;  // a step, or the end of all
  std::condition_variable ended_changed_;
  std::size_t ended_ = 0;  // items, in their order
  bool failed_ = false;
  std::uint64_t step_ = 0;
  std::size_t working_ = 0;  // threads still in the step
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace parbuckle
