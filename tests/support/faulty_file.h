// A BlockFile in memory that fails, delays and counts as a test tells it to.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "offload/storage/block_file.h"

namespace parbuckle {

class FaultyFile final : public BlockFile {
 public:
  explicit FaultyFile(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {}

  /// Called before every request; an error is the request's answer and nothing moves. May sleep.
  std::function<Status(bool is_write, std::int64_t offset, std::size_t bytes)> before;

  Status read(std::int64_t offset, std::span<std::byte> to) override {
    if (before) {
      Status status = before(false, offset, to.size());
      if (!status.ok()) {
        return status;
      }
    }
    const std::lock_guard lock(mutex_);
    std::memcpy(to.data(), bytes_.data() + offset, to.size());
    read_bytes_ += static_cast<std::int64_t>(to.size());
    return {};
  }
  Status write(std::int64_t offset, std::span<const std::byte> from) override {
    if (before) {
      Status status = before(true, offset, from.size());
      if (!status.ok()) {
        return status;
      }
    }
    const std::lock_guard lock(mutex_);
    std::memcpy(bytes_.data() + offset, from.data(), from.size());
    written_bytes_ += static_cast<std::int64_t>(from.size());
    return {};
  }
  Status preallocate(std::int64_t bytes) override {
    bytes_.resize(static_cast<std::size_t>(bytes));
    return {};
  }
  Status sync() override { return {}; }
  [[nodiscard]] std::string_view engine() const override { return "in memory, faulty"; }
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] const std::string& warning() const override { return warning_; }

  [[nodiscard]] std::int64_t read_bytes() const { return read_bytes_; }
  [[nodiscard]] std::int64_t written_bytes() const { return written_bytes_; }

 private:
  std::mutex mutex_;
  std::vector<std::byte> bytes_;
  std::string path_ = "faulty";
  std::string warning_;
  std::atomic<std::int64_t> read_bytes_{0};
  std::atomic<std::int64_t> written_bytes_{0};
};

}  // namespace parbuckle
