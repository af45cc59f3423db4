// Memory at a page boundary, as direct I/O wants it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "parbuckle/status.h"
#include "parbuckle/units.h"

namespace parbuckle {

class PageMemory {
 public:
  PageMemory() = default;
  /// Zeros; `bytes` rounded up to whole pages. resource_exhausted where memory is short.
  static Result<PageMemory> create(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(round_up(bytes, page_bytes));
    PageMemory memory;
    memory.data_.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes, size)));
    if (memory.data_ == nullptr) {
      return exhausted("no memory for a buffer of " + format_size(bytes));
    }
    std::memset(memory.data_.get(), 0, size);
    memory.size_ = size;
    return memory;
  }
  [[nodiscard]] std::span<std::byte> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const {
      std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc): of aligned_alloc
    }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace parbuckle
