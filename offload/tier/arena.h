// The host tier's range: one anonymous private mapping, taken at start-up with the plan's exact size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "parbuckle/status.h"

namespace parbuckle {

struct ArenaOptions {
  std::int64_t bytes = 0;
  bool huge_pages = false;  // 2 MiB pages, asked for explicitly: they are never given unasked
  bool lock = true;         // keep in RAM where RLIMIT_MEMLOCK allows
  bool touch = false;       // take every page now; otherwise at first use
};

/// Page aligned, zeros at first, left out of core dumps. Never grows.
class Arena {
 public:
  /// Fails with resource_exhausted where the mapping is refused.
  static Result<Arena> create(const ArenaOptions& options);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] bool locked() const { return locked_; }
  /// One line for the user where something asked for was not given; empty otherwise.
  [[nodiscard]] const std::string& warning() const { return warning_; }

 private:
  Arena() = default;
  void lock(bool touch);
  void release();

  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  bool locked_ = false;
  std::string warning_;
};

}  // namespace parbuckle
