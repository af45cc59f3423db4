#include "offload/storage/io_ring.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <liburing.h>

namespace parbuckle {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t wake_request =
    ~std::uint64_t{0};                              // user_data of the read that wakes the ring
constexpr std::int64_t registered_piece = 1 * gib;  // the kernel's largest registered buffer
constexpr int most_repeats = 64;                    // of one request the kernel wants repeated

/// Newest kernels first: each step gives up one way of being told less often.
constexpr std::array<unsigned, 3> ring_flags{
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,  // 6.1
    IORING_SETUP_COOP_TASKRUN,                                // 5.19
    0U};

Status no_ring(int error) {
  const bool forbidden = error == EPERM || error == EACCES;
  return unsupported(std::string("io_uring is not available: ") +
                     (forbidden ? "forbidden (kernel.io_uring_disabled or a seccomp filter)"
                                : std::strerror(error)));
}

}  // namespace

class IoRing::Core {
 public:
  Core(std::string path, int descriptor, IoRingOptions options)
      : path_(std::move(path)),
        descriptor_(descriptor),
        options_(std::move(options)),
        requests_(2 * static_cast<std::size_t>(options_.requests)) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  Core(Core&&) = delete;
  Core& operator=(Core&&) = delete;
  ~Core();

  /// Blocks until the thread has made its ring, or could not.
  Status started();
  Status register_memory(std::span<std::byte> memory);
  Status move(const IoRange& range);
  void work();
  /// True when the thread will end soon: nothing is stuck in the kernel.
  bool stop();

 private:
  /// One range being moved. Lives here and not with its caller, who leaves when the deadline has passed.
  struct Batch {
    bool taken = false;
    bool abandoned = false;
    std::uint64_t turn = 0;
    IoRange range;
    std::int64_t issued = 0;  // bytes in requests
    int in_flight = 0;
    Clock::time_point progress;
    Status error;
    std::condition_variable ended;

    [[nodiscard]] bool can_issue() const { return taken && issued < range.bytes; }
    [[nodiscard]] bool finished() const { return issued >= range.bytes && in_flight == 0; }
    void clear();
  };
  struct Request {
    bool busy = false;
    std::size_t batch = 0;
    IoRange range;
    std::int64_t done = 0;
    int repeats = 0;
    Clock::time_point since;
  };

  Status set_up();
  void serve();
  void serve_registration();
  [[nodiscard]] bool fill();
  Batch* next_batch(IoDirection direction);
  void issue(Batch& batch, IoDirection direction);
  void prepare(std::size_t index);
  void prepare_wake();
  [[nodiscard]] bool collect();
  void complete(std::size_t index, int result);
  void end_request(Request& request, Status status);
  void fail_all(const std::string& cause);
  void wake();
  Status missed_deadline(Batch& batch);
  [[nodiscard]] std::size_t& in_flight(IoDirection direction) {
    return in_flight_[direction == IoDirection::read ? 0 : 1];
  }
  [[nodiscard]] bool registered(const IoRange& range, int& index) const;

  const std::string path_;
  const int descriptor_;
  const IoRingOptions options_;
  io_uring ring_{};
  bool ring_made_ = false;
  int wake_descriptor_ = -1;
  std::uint64_t wake_count_ = 0;  // the kernel writes it
  std::vector<iovec> memory_;     // registered, in pieces

  std::mutex mutex_;
  std::condition_variable batch_free_;
  std::array<Batch, 64> batches_;
  std::vector<Request> requests_;
  std::array<std::size_t, 2> in_flight_{};
  std::uint64_t turns_ = 0;
  bool write_next_ = false;
  bool asleep_ = false;
  bool stopping_ = false;
  bool broken_ = false;
  std::span<std::byte> to_register_;
  std::optional<Status> set_up_;
  std::optional<Status> registration_;
  std::condition_variable answered_;  // one of the two
};

void IoRing::Core::Batch::clear() {
  taken = false;
  abandoned = false;
  range = {};
  issued = 0;
  in_flight = 0;
  error = Status();
}

IoRing::Core::~Core() {
  if (ring_made_) {
    ::io_uring_queue_exit(&ring_);
  }
  if (wake_descriptor_ >= 0) {
    ::close(wake_descriptor_);
  }
}

Status IoRing::Core::set_up() {
  constexpr unsigned spare = 2;  // the wake-up call
  const unsigned entries = static_cast<unsigned>(requests_.size()) + spare;
  int error = 0;
  for (const unsigned flags : ring_flags) {
    io_uring_params parameters{};
    parameters.flags = flags;
    error = -::io_uring_queue_init_params(entries, &ring_, &parameters);
    ring_made_ = error == 0;
    if (ring_made_ && (parameters.features & IORING_FEAT_EXT_ARG) == 0) {
      return unsupported("io_uring is too old: Linux 5.11 is needed");
    }
    if (error != EINVAL) {
      break;
    }
  }
  if (!ring_made_) {
    return no_ring(error);
  }
  wake_descriptor_ = ::eventfd(0, EFD_CLOEXEC);
  if (wake_descriptor_ < 0) {
    return unsupported(std::string("no eventfd: ") + std::strerror(errno));
  }
  const int registered = ::io_uring_register_files(&ring_, &descriptor_, 1);
  return registered == 0 ? Status() : no_ring(-registered);
}

Status IoRing::Core::register_memory(std::span<std::byte> memory) {
  std::unique_lock lock(mutex_);
  to_register_ = memory;
  registration_.reset();
  wake();
  answered_.wait(lock, [this] { return registration_.has_value() || broken_; });
  return registration_.value_or(io_error(path_ + ": the ring has failed"));
}

/// On the ring's thread: a ring with one issuer takes registrations from nobody else.
void IoRing::Core::serve_registration() {
  if (to_register_.empty()) {
    return;
  }
  std::vector<iovec> pieces;
  for (std::size_t at = 0; at < to_register_.size(); at += registered_piece) {
    const std::size_t size =
        std::min(static_cast<std::size_t>(registered_piece), to_register_.size() - at);
    pieces.push_back({to_register_.data() + at, size});
  }
  const int result =
      ::io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
  if (result == 0) {
    memory_ = std::move(pieces);
    registration_ = Status();
  } else {
    registration_ = exhausted("the limit on locked memory (ulimit -l) does not allow " +
                              format_size(static_cast<std::int64_t>(to_register_.size())) +
                              " of registered buffers: " + std::strerror(-result));
  }
  to_register_ = {};
  answered_.notify_all();
}

Status IoRing::Core::move(const IoRange& range) {
  if (range.bytes <= 0) {
    return {};
  }
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> deadline(options_.deadline_s);
  const auto free_batch = [this] {
    return std::find_if(batches_.begin(), batches_.end(), [](const Batch& b) { return !b.taken; });
  };
  if (!batch_free_.wait_for(lock, deadline, [&] { return free_batch() != batches_.end(); })) {
    return io_failed(path_, range, "earlier requests still hang in the drive");
  }
  if (broken_) {
    return io_failed(path_, range, "the ring has failed");
  }
  Batch& batch = *free_batch();
  batch.taken = true;
  batch.turn = ++turns_;
  batch.range = range;
  batch.progress = Clock::now();
  wake();
  Patience patience(options_.deadline_s);
  while (!batch.finished()) {
    if (batch.ended.wait_for(lock, patience.slice()) == std::cv_status::timeout &&
        !batch.finished() && patience.lost(batch.progress)) {
      return missed_deadline(batch);
    }
  }
  Status status = std::move(batch.error);
  batch.clear();
  batch_free_.notify_one();
  return status;
}

Status IoRing::Core::missed_deadline(Batch& batch) {
  const auto index = static_cast<std::size_t>(&batch - batches_.data());
  LateRequest late{batch.range.direction, batch.range.offset + batch.issued, batch.progress};
  bool found = false;
  for (const Request& request : requests_) {
    if (request.busy && request.batch == index && (!found || request.since < late.since)) {
      late.offset = request.range.offset;
      late.since = request.since;
      found = true;
    }
  }
  batch.issued = batch.range.bytes;
  batch.abandoned = batch.in_flight > 0;
  if (!batch.abandoned) {
    batch.clear();
    batch_free_.notify_one();
  }
  return deadline_missed(path_, late, options_.deadline_s);
}

/// A system call only where the thread sleeps in the kernel.
void IoRing::Core::wake() {
  if (std::exchange(asleep_, false)) {
    constexpr std::uint64_t one = 1;
    while (::write(wake_descriptor_, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
  }
}

Status IoRing::Core::started() {
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [this] { return set_up_.has_value(); });
  return *set_up_;
}

void IoRing::Core::work() {
  Status status =
      set_up();  // here, since a ring with one issuer belongs to the thread that made it
  {
    const std::lock_guard lock(mutex_);
    set_up_ = status;
    answered_.notify_all();
  }
  if (status.ok()) {
    serve();
  }
}

void IoRing::Core::serve() {
  std::unique_lock lock(mutex_);
  prepare_wake();
  while (true) {
    serve_registration();
    const bool more = fill();
    if (stopping_ && !more && in_flight_[0] + in_flight_[1] == 0) {
      return;
    }
    asleep_ = true;
    lock.unlock();
    const int error = ::io_uring_submit_and_wait(&ring_, 1);
    if (error == -EAGAIN) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the kernel is short of memory
    }
    lock.lock();
    asleep_ = false;
    if (error < 0 && error != -EINTR && error != -EAGAIN && error != -EBUSY) {
      return fail_all(std::strerror(-error));
    }
    if (!collect()) {
      return fail_all("a completion belongs to no request");
    }
  }
}

void IoRing::Core::prepare_wake() {
  io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
  ::io_uring_prep_read(sqe, wake_descriptor_, &wake_count_, sizeof(wake_count_), 0);
  sqe->user_data = wake_request;
}

/// Makes requests while there is room and work, reads and writes in turns; true if it made any.
bool IoRing::Core::fill() {
  bool made = false;
  bool refused = false;  // the other direction had nothing to do
  while (true) {
    const IoDirection direction = write_next_ ? IoDirection::write : IoDirection::read;
    write_next_ = !write_next_;
    Batch* const batch = in_flight(direction) < static_cast<std::size_t>(options_.requests)
                             ? next_batch(direction)
                             : nullptr;
    if (batch == nullptr) {
      if (std::exchange(refused, true)) {
        return made;
      }
      continue;
    }
    issue(*batch, direction);
    made = true;
    refused = false;
  }
}

IoRing::Core::Batch* IoRing::Core::next_batch(IoDirection direction) {
  Batch* oldest = nullptr;
  for (Batch& batch : batches_) {
    if (batch.can_issue() && batch.range.direction == direction &&
        (oldest == nullptr || batch.turn < oldest->turn)) {
      oldest = &batch;
    }
  }
  return oldest;
}

void IoRing::Core::issue(Batch& batch, IoDirection direction) {
  const auto slot =
      std::find_if(requests_.begin(), requests_.end(), [](const Request& r) { return !r.busy; });
  Request& request = *slot;
  request.busy = true;
  request.batch = static_cast<std::size_t>(&batch - batches_.data());
  request.range = batch.range;
  request.range.offset += batch.issued;
  request.range.data += batch.issued;
  request.range.bytes = std::min(options_.request_bytes, batch.range.bytes - batch.issued);
  request.done = 0;
  request.repeats = 0;
  request.since = Clock::now();
  batch.issued += request.range.bytes;
  ++batch.in_flight;
  ++in_flight(direction);
  prepare(static_cast<std::size_t>(slot - requests_.begin()));
}

bool IoRing::Core::registered(const IoRange& range, int& index) const {
  const auto inside = [&range](const iovec& piece) {
    const auto* const begin = static_cast<const std::byte*>(piece.iov_base);
    return range.data >= begin && range.data + range.bytes <= begin + piece.iov_len;
  };
  const auto found = std::find_if(memory_.begin(), memory_.end(), inside);
  index = static_cast<int>(found - memory_.begin());
  return found != memory_.end();
}

/// What is left of a request. The queue has an entry for every request, so there is always one.
void IoRing::Core::prepare(std::size_t index) {
  const Request& request = requests_[index];
  IoRange left = request.range;
  left.data += request.done;
  left.offset += request.done;
  left.bytes -= request.done;
  io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
  constexpr int first_file = 0;
  const auto size = static_cast<unsigned>(left.bytes);
  const auto offset = static_cast<std::uint64_t>(left.offset);
  const bool reads = left.direction == IoDirection::read;
  int buffer = 0;
  if (registered(left, buffer)) {
    if (reads) {
      ::io_uring_prep_read_fixed(sqe, first_file, left.data, size, offset, buffer);
    } else {
      ::io_uring_prep_write_fixed(sqe, first_file, left.data, size, offset, buffer);
    }
  } else if (reads) {
    ::io_uring_prep_read(sqe, first_file, left.data, size, offset);
  } else {
    ::io_uring_prep_write(sqe, first_file, left.data, size, offset);
  }
  sqe->flags |= IOSQE_FIXED_FILE;
  sqe->user_data = index;
}

/// Takes all completions there are; false for one that belongs to no request.
bool IoRing::Core::collect() {
  io_uring_cqe* cqe = nullptr;
  while (::io_uring_peek_cqe(&ring_, &cqe) == 0) {
    const std::uint64_t index = cqe->user_data;
    const int result = cqe->res;
    ::io_uring_cqe_seen(&ring_, cqe);
    if (index == wake_request) {
      prepare_wake();
    } else if (index >= requests_.size() || !requests_[index].busy) {
      return false;
    } else {
      complete(index, result);
    }
  }
  return true;
}

void IoRing::Core::complete(std::size_t index, int result) {
  Request& request = requests_[index];
  if (options_.tap) {
    const std::optional<int> told = options_.tap(request.range, result);
    if (!told) {
      return;
    }
    result = *told;
  }
  if ((result == -EINTR || result == -EAGAIN) && ++request.repeats < most_repeats) {
    return prepare(index);
  }
  if (result < 0) {
    return end_request(request, io_failed(path_, request.range, std::strerror(-result)));
  }
  const std::int64_t left = request.range.bytes - request.done;
  if (result > left) {
    return end_request(request, io_failed(path_, request.range, "more bytes moved than asked for"));
  }
  const Result<std::int64_t> next = after_short_result(path_, request.range, request.done, result);
  if (!next.ok()) {
    return end_request(request, next.status());
  }
  request.done = *next;
  if (request.done < request.range.bytes) {
    return prepare(index);
  }
  end_request(request, Status());
}

void IoRing::Core::end_request(Request& request, Status status) {
  Batch& batch = batches_[request.batch];
  request.busy = false;
  --in_flight(request.range.direction);
  --batch.in_flight;
  batch.progress = Clock::now();
  if (!status.ok()) {
    batch.issued = batch.range.bytes;
    if (batch.error.ok()) {
      batch.error = std::move(status);
    }
  }
  if (!batch.finished()) {
    return;
  }
  if (batch.abandoned) {
    batch.clear();
    batch_free_.notify_one();
  } else {
    batch.ended.notify_all();
  }
}

void IoRing::Core::fail_all(const std::string& cause) {
  broken_ = true;
  for (Batch& batch : batches_) {
    if (batch.taken) {
      batch.issued = batch.range.bytes;
      batch.in_flight = 0;
      batch.error = io_failed(path_, batch.range, cause);
      batch.ended.notify_all();
    }
  }
  answered_.notify_all();
}

bool IoRing::Core::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  wake();
  return in_flight_[0] + in_flight_[1] == 0;
}

Result<std::unique_ptr<IoRing>> IoRing::create(std::string path,
                                               int descriptor,
                                               IoRingOptions options) {
  std::unique_ptr<IoRing> ring(
      new IoRing(std::make_shared<Core>(std::move(path), descriptor, std::move(options))));
  try {
    ring->thread_ = std::thread([core = ring->core_] { core->work(); });
  } catch (const std::system_error& error) {
    return exhausted(std::string("I/O thread: ") + error.what());
  }
  PARBUCKLE_TRY(ring->core_->started());
  return ring;
}

IoRing::~IoRing() {
  if (!thread_.joinable()) {
    return;
  }
  if (core_->stop()) {
    thread_.join();
  } else {
    thread_.detach();  // requests hang in the kernel: waiting for them would hang the process too
  }
}

Status IoRing::register_memory(std::span<std::byte> memory) {
  return core_->register_memory(memory);
}

Status IoRing::move(const IoRange& range) {
  return core_->move(range);
}

}  // namespace parbuckle
