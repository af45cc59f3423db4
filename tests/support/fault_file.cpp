#include "tests/support/fault_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

namespace parbuckle {
namespace {

constexpr std::size_t sector_bytes = 512;

/// SplitMix64's finaliser: equal inputs, equal bits; neighbours, unrelated bits.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

double fraction(std::uint64_t luck) {
  return static_cast<double>(luck >> 11) * 0x1.0p-53;
}

void flip(std::byte& byte, std::uint64_t bit) {
  byte ^= static_cast<std::byte>(1U << (bit % 8));
}

}  // namespace

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::short_move:
      return "short";
    case Fault::failed:
      return "failed";
    case Fault::no_space:
      return "no space";
    case Fault::interrupted:
      return "interrupted";
    case Fault::torn:
      return "torn";
    case Fault::delayed:
      return "delayed";
    case Fault::corrupt_read:
      return "corrupt read";
    case Fault::corrupt_write:
      return "corrupt write";
    case Fault::misdirected:
      return "misdirected";
    case Fault::crash:
      return "crash";
  }
  return "?";
}

/// A handle; the bytes are the drive's.
class FaultFile final : public BlockFile {
 public:
  FaultFile(FaultDrive& drive, std::string name, std::int64_t generation)
      : drive_(drive), name_(std::move(name)), generation_(generation) {}

  Status read(std::int64_t offset, std::span<std::byte> to) override {
    return drive_.read(operation(FaultDrive::Kind::read, offset, to.size()), to);
  }
  Status write(std::int64_t offset, std::span<const std::byte> from) override {
    return drive_.write(operation(FaultDrive::Kind::write, offset, from.size()), from);
  }
  Status preallocate(std::int64_t bytes) override {
    return drive_.preallocate(
        operation(FaultDrive::Kind::preallocate, 0, static_cast<std::size_t>(bytes)));
  }
  Status sync() override { return drive_.sync(operation(FaultDrive::Kind::sync, 0, 0)); }
  [[nodiscard]] std::string_view engine() const override { return "in memory, fault-injecting"; }
  [[nodiscard]] const std::string& path() const override { return name_; }
  [[nodiscard]] const std::string& warning() const override { return warning_; }

 private:
  FaultDrive::Operation operation(FaultDrive::Kind kind, std::int64_t offset, std::size_t bytes) {
    return {.kind = kind,
            .name = name_,
            .offset = offset,
            .bytes = static_cast<std::int64_t>(bytes),
            .generation = generation_};
  }

  FaultDrive& drive_;
  std::string name_;
  std::int64_t generation_;
  std::string warning_;
};

std::unique_ptr<BlockFile> FaultDrive::open(const std::string& name) {
  const std::lock_guard lock(mutex_);
  files_.try_emplace(name);
  return std::make_unique<FaultFile>(*this, name, generation_);
}

std::string FaultDrive::Operation::where() const {
  constexpr std::array<const char*, 4> verbs{"read", "write", "preallocate", "sync"};
  std::string text = std::string(verbs[static_cast<std::size_t>(kind)]) + " " + name;
  if (kind != Kind::sync) {
    text += " +" + std::to_string(offset) + ", " + std::to_string(bytes) + " bytes";
  }
  return text;
}

std::uint64_t FaultDrive::draw(std::int64_t operation, std::uint64_t what) const {
  return mix(mix(mix(options_.seed) + static_cast<std::uint64_t>(operation)) + what);
}

Status FaultDrive::answer(const Operation& operation, const std::string& cause) const {
  return io_error(operation.where() + ": " + cause + " (operation " +
                  std::to_string(operation.number) + ", seed " + std::to_string(options_.seed) +
                  ")");
}

/// Numbers the operation, decides its fault, and answers it where nothing else has to happen.
Status FaultDrive::begin(Operation& operation) {
  operation.number = operations_;
  if (operation.generation != generation_ || crashed_) {
    return answer(operation, "the drive is gone");
  }
  ++operations_;
  choose_fault(operation);
  if (!operation.fault) {
    return {};
  }
  injected_.push_back({operation.number, *operation.fault, operation.where()});
  if (*operation.fault == Fault::failed) {
    return answer(operation, std::strerror(EIO));
  }
  if (*operation.fault == Fault::no_space) {
    return answer(operation, std::strerror(ENOSPC));
  }
  if (*operation.fault == Fault::interrupted) {
    return answer(operation, std::strerror(EINTR));
  }
  return {};
}

void FaultDrive::choose_fault(Operation& operation) {
  if (operation.number == options_.crash_at) {
    operation.fault = Fault::crash;
    return;
  }
  const bool reads = operation.kind == Kind::read;
  const bool writes = operation.kind == Kind::write;
  const bool moves = (reads || writes) && operation.bytes > 0;
  const std::array<std::pair<Fault, double>, 9> chances{{
      {Fault::short_move, moves ? options_.short_move : 0},
      {Fault::failed, options_.failed},
      {Fault::no_space, writes || operation.kind == Kind::preallocate ? options_.no_space : 0},
      {Fault::interrupted, options_.interrupted},
      {Fault::torn, writes && moves ? options_.torn : 0},
      {Fault::delayed, options_.delayed},
      {Fault::corrupt_read, reads && moves ? options_.corrupt_read : 0},
      {Fault::corrupt_write, writes && moves ? options_.corrupt_write : 0},
      {Fault::misdirected, writes && moves ? options_.misdirected : 0},
  }};
  double luck = fraction(draw(operation.number, 1));
  for (const auto& [fault, chance] : chances) {
    if (luck < chance) {
      operation.fault = fault;
      return;
    }
    luck -= chance;
  }
}

/// Others run meanwhile, a crash among them: what is in flight then lands too late.
Status FaultDrive::delay(const Operation& operation, std::unique_lock<std::mutex>& lock) const {
  if (operation.fault != Fault::delayed) {
    return {};
  }
  const auto longest =
      static_cast<std::uint64_t>(std::max<std::int64_t>(1, options_.longest_delay_us));
  const std::chrono::microseconds time(draw(operation.number, 2) % longest);
  lock.unlock();
  std::this_thread::sleep_for(time);
  lock.lock();
  return crashed_ || operation.generation != generation_ ? answer(operation, "the drive is gone")
                                                         : Status();
}

Status FaultDrive::read(Operation operation, std::span<std::byte> to) {
  std::unique_lock lock(mutex_);
  PARBUCKLE_TRY(begin(operation));
  if (operation.fault == Fault::crash) {
    crash(operation);
    return answer(operation, "the drive is gone");
  }
  PARBUCKLE_TRY(delay(operation, lock));
  const StoredFile& file = files_[operation.name];
  if (operation.offset + operation.bytes > file.bytes) {
    return answer(operation, "the file ends at " + std::to_string(file.bytes));
  }
  std::int64_t pages = operation.bytes / page_bytes;
  if (operation.fault == Fault::short_move) {
    pages =
        static_cast<std::int64_t>(draw(operation.number, 2) % static_cast<std::uint64_t>(pages));
  }
  for (std::int64_t p = 0; p < pages; ++p) {
    const auto found = file.pages.find(operation.offset / page_bytes + p);
    const auto target = to.subspan(static_cast<std::size_t>(p * page_bytes), page_bytes);
    if (found == file.pages.end()) {
      std::fill(target.begin(), target.end(), std::byte{0});
    } else {
      std::copy_n(found->second.newest().begin(), target.size(), target.begin());
    }
  }
  if (operation.fault == Fault::short_move) {
    return answer(operation, "only " + std::to_string(pages * page_bytes) + " bytes moved");
  }
  if (operation.fault == Fault::corrupt_read) {
    flip(to[draw(operation.number, 3) % to.size()], draw(operation.number, 4));
  }
  return {};
}

void FaultDrive::store(StoredFile& file, std::int64_t page, std::span<const std::byte> from) {
  Page bytes;
  std::copy_n(from.begin(), bytes.size(), bytes.begin());
  StoredPage& stored = file.pages[page];
  stored.unsynced.push_back(bytes);
  stored.sync_failed = false;
}

Status FaultDrive::write(Operation operation, std::span<const std::byte> from) {
  std::unique_lock lock(mutex_);
  PARBUCKLE_TRY(begin(operation));
  PARBUCKLE_TRY(delay(operation, lock));
  const std::int64_t end = operation.offset + operation.bytes;
  if (options_.capacity_bytes >= 0 && end > options_.capacity_bytes) {
    return answer(operation, std::strerror(ENOSPC));
  }
  StoredFile& file = files_[operation.name];
  file.bytes = std::max(file.bytes, end);
  std::int64_t pages = operation.bytes / page_bytes;
  if (operation.fault == Fault::short_move) {
    pages =
        static_cast<std::int64_t>(draw(operation.number, 2) % static_cast<std::uint64_t>(pages));
  }
  const std::int64_t astray = operation.fault == Fault::misdirected
                                  ? 1 + static_cast<std::int64_t>(draw(operation.number, 2) % 8)
                                  : 0;
  const std::int64_t first = operation.offset / page_bytes + astray;
  for (std::int64_t p = 0; p < pages; ++p) {
    const bool lands = operation.fault != Fault::torn ||
                       draw(operation.number, 16 + static_cast<std::uint64_t>(p)) % 2 == 0;
    if (lands) {
      store(file, first + p, from.subspan(static_cast<std::size_t>(p * page_bytes), page_bytes));
    }
  }
  if (operation.fault == Fault::crash) {
    crash(operation);
    return answer(operation, "the drive is gone");
  }
  if (operation.fault == Fault::short_move) {
    return answer(operation, "only " + std::to_string(pages * page_bytes) + " bytes moved");
  }
  if (operation.fault == Fault::torn) {
    return answer(operation, std::strerror(EIO));
  }
  if (operation.fault == Fault::corrupt_write) {
    const std::uint64_t at = draw(operation.number, 3) % from.size();
    Page& page = file.pages[first + static_cast<std::int64_t>(at / page_bytes)].unsynced.back();
    flip(page[at % page_bytes], draw(operation.number, 4));
  }
  return {};
}

Status FaultDrive::preallocate(Operation operation) {
  const std::lock_guard lock(mutex_);
  PARBUCKLE_TRY(begin(operation));
  if (operation.fault == Fault::crash) {
    crash(operation);
    return answer(operation, "the drive is gone");
  }
  if (options_.capacity_bytes >= 0 && operation.bytes > options_.capacity_bytes) {
    return exhausted(operation.where() + ": " + std::strerror(ENOSPC));
  }
  StoredFile& file = files_[operation.name];
  file.bytes = std::max(file.bytes, operation.bytes);
  return {};
}

Status FaultDrive::sync(Operation operation) {
  const std::lock_guard lock(mutex_);
  const Status begun = begin(operation);
  if (operation.fault == Fault::crash) {
    crash(operation);
    return answer(operation, "the drive is gone");
  }
  if (operation.generation != generation_ || crashed_) {
    return begun;
  }
  for (auto& [number, page] : files_[operation.name].pages) {
    if (!begun.ok()) {
      page.sync_failed = !page.unsynced.empty();
    } else if (!page.unsynced.empty() && !page.sync_failed) {
      page.durable = page.unsynced.back();
      page.unsynced.clear();
    }
  }
  return begun;
}

/// One of the versions of a page that may be on the drive now, or sectors of two of them.
void FaultDrive::lose(StoredPage& page, std::uint64_t luck) const {
  const std::size_t versions = page.unsynced.size() + 1;
  const auto version = [&page](std::size_t index) -> const Page& {
    return index == 0 ? page.durable : page.unsynced[index - 1];
  };
  Page survivor = version(mix(luck + 1) % versions);
  if (fraction(mix(luck + 2)) < options_.torn_page) {
    const Page& other = version(mix(luck + 3) % versions);
    for (std::size_t at = 0; at < survivor.size(); at += sector_bytes) {
      if (mix(luck + 4 + at) % 2 == 0) {
        std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(at),
                    sector_bytes,
                    survivor.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
  page.durable = survivor;
  page.unsynced.clear();
  page.sync_failed = false;
}

void FaultDrive::crash(const Operation& operation) {
  crashed_ = true;
  std::uint64_t file_index = 0;
  for (auto& [name, file] : files_) {
    const std::uint64_t luck = draw(operation.number, mix(++file_index));
    for (auto& [number, page] : file.pages) {
      if (!page.unsynced.empty()) {
        lose(page, mix(luck + static_cast<std::uint64_t>(number)));
      }
    }
  }
}

void FaultDrive::restart(const FaultOptions& options) {
  const std::lock_guard lock(mutex_);
  if (!crashed_) {
    crash({.number = operations_});
  }
  options_ = options;
  injected_.clear();
  operations_ = 0;
  crashed_ = false;
  ++generation_;
}

void FaultDrive::flip_bit(const std::string& name, std::int64_t offset, int bit) {
  const std::lock_guard lock(mutex_);
  StoredPage& page = files_[name].pages[offset / page_bytes];
  const auto at = static_cast<std::size_t>(offset % page_bytes);
  flip(page.durable[at], static_cast<std::uint64_t>(bit));
  if (!page.unsynced.empty()) {
    flip(page.unsynced.back()[at], static_cast<std::uint64_t>(bit));
  }
}

std::int64_t FaultDrive::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

bool FaultDrive::crashed() const {
  const std::lock_guard lock(mutex_);
  return crashed_;
}

std::vector<InjectedFault> FaultDrive::injected() const {
  const std::lock_guard lock(mutex_);
  return injected_;
}

std::string FaultDrive::report() const {
  const std::lock_guard lock(mutex_);
  std::ostringstream text;
  text << "seed " << options_.seed << ", " << operations_ << " operations\n";
  for (const InjectedFault& injected : injected_) {
    text << "operation " << injected.operation << ": " << to_string(injected.fault) << ": "
         << injected.where << '\n';
  }
  return text.str();
}

}  // namespace parbuckle
