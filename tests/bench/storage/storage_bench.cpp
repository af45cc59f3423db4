// How fast an engine moves a file: blocks read, written, or both at once, by as many callers as a lane has transfers in flight.
// One line of JSON on standard output. tools/dev/bench_storage puts fio beside it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <mutex>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "parbuckle/units.h"

#include "offload/storage/checksum.h"
#include "offload/storage/open_file.h"
#include "offload/storage/uring_file.h"
#include "offload/tier/arena.h"

namespace parbuckle {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  std::string file;
  std::string engine = "io_uring";
  std::string pattern = "read";
  std::int64_t bytes = 4 * gib;
  std::int64_t block_bytes = 2 * mib;
  std::int64_t request_bytes = 1 * mib;
  int requests = 16;
  int callers = 8;
  bool registered = true;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Result<std::unique_ptr<BlockFile>> open(const Settings& settings) {
  if (settings.engine == "positioned") {
    PositionedFileOptions options;
    options.team.threads = settings.requests;
    options.team.smallest_request_bytes = settings.request_bytes;
    options.team.largest_request_bytes = settings.request_bytes;
    return PositionedFile::open(settings.file, options);
  }
  return UringFile::open(settings.file,
                         {.requests = settings.requests, .request_bytes = settings.request_bytes});
}

/// One direction: callers take the blocks of [begin, end) in order.
class Mover {
 public:
  Mover(BlockFile& file, IoDirection direction, std::int64_t begin, std::int64_t end)
      : file_(file), direction_(direction), next_(begin), end_(end) {}

  void start(int callers, std::byte* memory, std::int64_t block_bytes) {
    for (int c = 0; c < callers; ++c) {
      const std::span<std::byte> block(memory + c * block_bytes,
                                       static_cast<std::size_t>(block_bytes));
      threads_.emplace_back([this, block] { move(block); });
    }
  }

  Status finish() {
    for (std::thread& thread : threads_) {
      thread.join();
    }
    return error_;
  }

 private:
  void move(std::span<std::byte> block) {
    const auto size = static_cast<std::int64_t>(block.size());
    for (std::int64_t at = next_.fetch_add(size); at < end_; at = next_.fetch_add(size)) {
      const Status status =
          direction_ == IoDirection::read ? file_.read(at, block) : file_.write(at, block);
      if (!status.ok()) {
        const std::lock_guard lock(mutex_);
        error_ = status;
        return;
      }
    }
  }

  BlockFile& file_;
  IoDirection direction_;
  std::atomic<std::int64_t> next_;
  std::int64_t end_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  Status error_;
};

Status measure_moves(const Settings& settings) {
  PARBUCKLE_ASSIGN(const auto file, open(settings));
  PARBUCKLE_TRY(file->preallocate(settings.bytes));
  const std::int64_t side = settings.callers * settings.block_bytes;
  PARBUCKLE_ASSIGN(const Arena arena, Arena::create({.bytes = 2 * side, .lock = false}));
  std::fill_n(arena.data(), 2 * side, std::byte{0x5A});
  if (settings.registered) {
    file->register_memory({arena.data(), static_cast<std::size_t>(2 * side)});
  }
  const bool duplex = settings.pattern == "duplex";
  const std::int64_t half = settings.bytes / 2;
  const double cpu_before = cpu_seconds();
  const auto begin = Clock::now();
  Mover reader(*file, IoDirection::read, 0, duplex ? half : settings.bytes);
  Mover writer(*file, IoDirection::write, duplex ? half : 0, settings.bytes);
  if (settings.pattern != "write") {
    reader.start(settings.callers, arena.data(), settings.block_bytes);
  }
  if (settings.pattern != "read") {
    writer.start(settings.callers, arena.data() + side, settings.block_bytes);
  }
  PARBUCKLE_TRY(reader.finish());
  PARBUCKLE_TRY(writer.finish());
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const double amount = static_cast<double>(settings.bytes);
  std::cout << R"({"engine": ")" << file->engine() << R"(", "pattern": ")" << settings.pattern
            << R"(", "bytes_per_s": )" << amount / seconds << R"(, "cpu_s_per_gib": )"
            << (cpu_seconds() - cpu_before) / (amount / static_cast<double>(gib))
            << R"(, "warning": ")" << file->warning() << "\"}\n";
  return {};
}

/// The checksum's rate on `callers` threads, each over chunks of its own that no cache holds.
Status measure_checksum(const Settings& settings) {
  constexpr std::int64_t chunk = 2 * mib;
  const std::int64_t share = settings.bytes / settings.callers / chunk * chunk;
  PARBUCKLE_ASSIGN(
      const Arena arena,
      Arena::create({.bytes = share * settings.callers, .lock = false, .touch = true}));
  std::fill_n(arena.data(), arena.bytes(), std::byte{0x5A});
  std::atomic<std::uint64_t> sum{0};  // keeps the work
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (int c = 0; c < settings.callers; ++c) {
    threads.emplace_back([&, c] {
      for (std::int64_t at = 0; at < share; at += chunk) {
        sum += checksum({arena.data() + c * share + at, static_cast<std::size_t>(chunk)});
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::cout << R"({"checksum": ")" << checksum_name() << R"(", "threads": )" << settings.callers
            << R"(, "bytes_per_s": )" << static_cast<double>(arena.bytes()) / seconds << "}\n";
  return {};
}

int run(int argc, char** argv) {
  Settings settings;
  CLI::App app("storage_bench: the rate of a storage engine, or of the checksum");
  app.add_option("--file", settings.file, "a file of at least --bytes, already written");
  app.add_option("--engine", settings.engine, "io_uring or positioned");
  app.add_option("--pattern", settings.pattern, "read, write, duplex (half each) or checksum");
  app.add_option("--bytes", settings.bytes, "in all");
  app.add_option("--block", settings.block_bytes, "bytes of one call");
  app.add_option("--request", settings.request_bytes, "bytes of one request to the kernel");
  app.add_option("--requests", settings.requests, "in flight, of each direction");
  app.add_option("--callers", settings.callers, "blocks in flight, of each direction");
  app.add_option("--registered", settings.registered, "register the memory");
  CLI11_PARSE(app, argc, argv);
  const Status status =
      settings.pattern == "checksum" ? measure_checksum(settings) : measure_moves(settings);
  if (!status.ok()) {
    std::cerr << "storage_bench: " << status.message() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace parbuckle

int main(int argc, char** argv) {
  return parbuckle::run(argc, argv);
}
