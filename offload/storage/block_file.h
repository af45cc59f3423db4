// The storage seam: a file that is read and written at offsets, large and aligned. Engines differ in how; the
// fault-injecting one of the tests stands behind the same interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "parbuckle/status.h"

namespace parbuckle {

/// Offsets, sizes and addresses of read and write are multiples of page_bytes. Both may be called from several threads.
class BlockFile {
 public:
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;
  BlockFile(BlockFile&&) = delete;
  BlockFile& operator=(BlockFile&&) = delete;
  virtual ~BlockFile() = default;

  /// Returns when all bytes have arrived, or with the first error. After a missed deadline the engine may still
  /// write to `to`: the memory must stay mapped until the file is closed.
  virtual Status read(std::int64_t offset, std::span<std::byte> to) = 0;
  /// Returns when the device has taken all bytes; they are durable after sync().
  virtual Status write(std::int64_t offset, std::span<const std::byte> from) = 0;
  /// Takes disk space for [0, bytes), so that later writes cannot fail for want of it.
  virtual Status preallocate(std::int64_t bytes) = 0;
  /// Makes durable what writes that returned before this call have written.
  virtual Status sync() = 0;
  /// Tells the engine where most requests will point, once and before the first of them; they may then be cheaper.
  /// `memory` must stay mapped until the file is closed. A refusal costs speed only: warning() names it.
  virtual void register_memory(std::span<std::byte> memory) { static_cast<void>(memory); }

  /// "positioned (O_DIRECT, 2 x 16 threads)": for the run header.
  [[nodiscard]] virtual std::string_view engine() const = 0;
  [[nodiscard]] virtual const std::string& path() const = 0;
  /// One line for the user where the engine works in a lesser way; empty otherwise.
  [[nodiscard]] virtual const std::string& warning() const = 0;

 protected:
  BlockFile() = default;
};

}  // namespace parbuckle
