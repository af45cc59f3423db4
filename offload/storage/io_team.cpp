#include "offload/storage/io_team.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace parbuckle {
namespace {

using Clock = std::chrono::steady_clock;

struct Request {
  IoRange range;
  std::size_t batch = 0;
};

}  // namespace

FileCalls FileCalls::system() {
  return {.pread = ::pread, .pwrite = ::pwrite};
}

class IoTeam::Core {
 public:
  Core(std::string path, IoTeamOptions options)
      : path_(std::move(path)),
        options_(std::move(options)),
        serving_(static_cast<std::size_t>(options_.threads)) {}

  Status move(const IoRange& range);
  void work(std::size_t worker);
  /// True when no request is stuck in the kernel: the threads can be joined.
  bool stop();

 private:
  /// One range being moved. Lives here and not with its caller, who leaves when the deadline has passed.
  struct Batch {
    bool taken = false;
    bool abandoned = false;
    IoRange range;
    std::int64_t request_bytes = 0;
    std::int64_t issued = 0;  // bytes handed to workers
    int in_flight = 0;
    Clock::time_point progress;
    Status error;

    [[nodiscard]] bool can_issue() const { return taken && issued < range.bytes; }
    [[nodiscard]] bool finished() const { return issued >= range.bytes && in_flight == 0; }
  };
  struct Serving {
    bool busy = false;
    std::size_t batch = 0;
    std::int64_t offset = 0;
    Clock::time_point since;
  };

  void start(Batch& batch, const IoRange& range) const;
  Status missed_deadline(std::size_t index);
  bool issue(Request& request);
  [[nodiscard]] Status transfer(const IoRange& range) const;
  void drop_from_cache(const IoRange& range) const;

  const std::string path_;
  const IoTeamOptions options_;
  std::mutex mutex_;
  std::condition_variable work_;  // requests can be issued
  std::condition_variable done_;  // a batch finished or became free
  std::array<Batch, 8> batches_;
  std::size_t next_batch_ = 0;  // round robin between batches in flight
  std::vector<Serving> serving_;
  bool stopping_ = false;
};

Status IoTeam::Core::move(const IoRange& range) {
  if (range.bytes <= 0) {
    return {};
  }
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> deadline(options_.deadline_s);
  const auto free_batch = [this] {
    return std::find_if(batches_.begin(), batches_.end(), [](const Batch& b) { return !b.taken; });
  };
  if (!done_.wait_for(lock, deadline, [&] { return free_batch() != batches_.end(); })) {
    return io_failed(path_, range, "earlier requests still hang in the drive");
  }
  Batch& batch = *free_batch();
  const auto index = static_cast<std::size_t>(&batch - batches_.data());
  start(batch, range);
  work_.notify_all();
  Patience patience(options_.deadline_s);
  while (!batch.finished()) {
    if (done_.wait_for(lock, patience.slice()) == std::cv_status::timeout && !batch.finished() &&
        patience.lost(batch.progress)) {
      return missed_deadline(index);
    }
  }
  Status status = std::move(batch.error);
  batch = Batch();
  done_.notify_all();
  return status;
}

void IoTeam::Core::start(Batch& batch, const IoRange& range) const {
  const std::int64_t share = round_up(range.bytes / options_.threads, page_bytes);
  batch.taken = true;
  batch.range = range;
  batch.request_bytes =
      std::clamp(share, options_.smallest_request_bytes, options_.largest_request_bytes);
  batch.progress = Clock::now();
}

Status IoTeam::Core::missed_deadline(std::size_t index) {
  Batch& batch = batches_[index];
  LateRequest late{batch.range.direction, batch.range.offset + batch.issued, batch.progress};
  bool found = false;  // the oldest request that a thread is at work on
  for (const Serving& serving : serving_) {
    if (serving.busy && serving.batch == index && (!found || serving.since < late.since)) {
      late.offset = serving.offset;
      late.since = serving.since;
      found = true;
    }
  }
  batch.issued = batch.range.bytes;
  batch.abandoned = batch.in_flight > 0;
  if (!batch.abandoned) {
    batch = Batch();
  }
  return deadline_missed(path_, late, options_.deadline_s);
}

bool IoTeam::Core::issue(Request& request) {
  for (std::size_t step = 0; step < batches_.size(); ++step) {
    const std::size_t index = (next_batch_ + step) % batches_.size();
    Batch& batch = batches_[index];
    if (batch.can_issue()) {
      request.batch = index;
      request.range = batch.range;
      request.range.offset += batch.issued;
      request.range.data += batch.issued;
      request.range.bytes = std::min(batch.request_bytes, batch.range.bytes - batch.issued);
      batch.issued += request.range.bytes;
      ++batch.in_flight;
      next_batch_ = index + 1;
      return true;
    }
  }
  return false;
}

void IoTeam::Core::work(std::size_t worker) {
  std::unique_lock lock(mutex_);
  while (true) {
    Request request;
    work_.wait(lock, [&] { return stopping_ || issue(request); });
    if (request.range.bytes == 0) {
      return;
    }
    serving_[worker] = {true, request.batch, request.range.offset, Clock::now()};
    lock.unlock();
    Status status = transfer(request.range);
    lock.lock();
    serving_[worker].busy = false;
    Batch& batch = batches_[request.batch];
    --batch.in_flight;
    batch.progress = Clock::now();
    if (!status.ok()) {
      batch.issued = batch.range.bytes;
      if (batch.error.ok()) {
        batch.error = std::move(status);
      }
    }
    if (batch.finished()) {
      if (batch.abandoned) {
        batch = Batch();
      }
      done_.notify_all();
    }
  }
}

bool IoTeam::Core::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  work_.notify_all();
  return std::none_of(
      serving_.begin(), serving_.end(), [](const Serving& serving) { return serving.busy; });
}

Status IoTeam::Core::transfer(const IoRange& range) const {
  std::int64_t done = 0;
  while (done < range.bytes) {
    const auto size = static_cast<std::size_t>(range.bytes - done);
    std::byte* const data = range.data + done;
    const off_t offset = range.offset + done;
    errno = 0;
    const ssize_t moved = range.direction == IoDirection::read
                              ? options_.calls.pread(range.descriptor, data, size, offset)
                              : options_.calls.pwrite(range.descriptor, data, size, offset);
    if (moved < 0 && errno == EINTR) {
      continue;
    }
    if (moved < 0) {
      return io_failed(path_, range, std::strerror(errno));
    }
    PARBUCKLE_ASSIGN(done, after_short_result(path_, range, done, moved));
  }
  if (options_.drop_cache) {
    drop_from_cache(range);
  }
  return {};
}

void IoTeam::Core::drop_from_cache(const IoRange& range) const {
  if (range.direction == IoDirection::write) {
    ::sync_file_range(
        range.descriptor,
        range.offset,
        range.bytes,
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  ::posix_fadvise(range.descriptor, range.offset, range.bytes, POSIX_FADV_DONTNEED);
}

Result<std::unique_ptr<IoTeam>> IoTeam::create(std::string path, IoTeamOptions options) {
  const auto threads = static_cast<std::size_t>(options.threads);
  std::unique_ptr<IoTeam> team(
      new IoTeam(std::make_shared<Core>(std::move(path), std::move(options))));
  try {
    team->threads_.reserve(threads);
    for (std::size_t worker = 0; worker < threads; ++worker) {
      team->threads_.emplace_back([core = team->core_, worker] { core->work(worker); });
    }
  } catch (const std::system_error& error) {
    return exhausted(std::string("I/O threads: ") + error.what());
  }
  return team;
}

IoTeam::~IoTeam() {
  const bool all_idle = core_->stop();
  for (std::thread& thread : threads_) {
    if (all_idle) {
      thread.join();
    } else {
      thread
          .detach();  // at least one hangs in the kernel: waiting for it would hang the process too
    }
  }
}

Status IoTeam::move(const IoRange& range) {
  return core_->move(range);
}

}  // namespace parbuckle
