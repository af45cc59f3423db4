// Page-aligned memory for direct I/O in tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "parbuckle/units.h"

namespace parbuckle {

class PageBuffer {
 public:
  explicit PageBuffer(std::int64_t bytes)
      : data_(static_cast<std::byte*>(
            ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{page_bytes}))),
        size_(static_cast<std::size_t>(bytes)) {
    fill(0);
  }
  [[nodiscard]] std::span<std::byte> span() const { return {data_.get(), size_}; }
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  /// Bytes that differ from place to place and from seed to seed.
  void fill_pattern(std::uint32_t seed) {
    std::uint32_t state = seed * 2654435761U + 1;
    for (std::byte& byte : span()) {
      state = state * 1664525U + 1013904223U;
      byte = static_cast<std::byte>(state >> 24);
    }
  }
  void fill(int value) {
    for (std::byte& byte : span()) {
      byte = static_cast<std::byte>(value);
    }
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete (memory, std::align_val_t{page_bytes});
    }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_;
};

inline bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace parbuckle
