// The host's side of what kernels are written against; kernels/runtime/cuda/simt/simt.h is the device's, name by name.
// Each kernel is a struct of views and numbers with `static constexpr int threads` and `operator()(const Thread&) const`.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <simt/bf16.h>
#include <simt/machine.h>
#include <string>

#include "parbuckle/status.h"

#define SIMT_DEVICE inline
#define SIMT_HOST_DEVICE
#define SIMT_UNROLL
#define SIMT_ROLLED

namespace parbuckle::simt {

// ---- arithmetic, correctly rounded where the device's is

inline float fused(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float square_root(float x) {
  return std::sqrt(x);
}
inline float exponential(float x) {
  return std::exp(x);
}
inline float complementary_error_function(float x) {
  return std::erfc(x);
}
inline double logarithm(double x) {
  return std::log(x);
}
inline double square_root(double x) {
  return std::sqrt(x);
}
inline double power(double x, double y) {
  return std::pow(x, y);
}
inline double cosine(double x) {
  return std::cos(x);
}
inline double sine(double x) {
  return std::sin(x);
}
inline float larger(float a, float b) {
  return std::fmax(a, b);
}
inline bool finite(float x) {
  return std::isfinite(x);
}
constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
constexpr std::int64_t larger(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}
inline constexpr float infinity = __builtin_inff();

// ---- views

/// One element that may be written.
template <class T>
class GlobalCell {
 public:
  explicit GlobalCell(T* at) : at_(at) {}
  operator T() const { return at_ == nullptr ? T{} : *at_; }  // NOLINT: as the device's T&
  const GlobalCell& operator=(T value) const {
    if (at_ != nullptr) {
      *at_ = value;
    }
    return *this;
  }
  const GlobalCell& operator=(const GlobalCell& other) const { return *this = T(other); }
  const GlobalCell& operator+=(T value) const { return *this = T(*this) + value; }
  GlobalCell(const GlobalCell&) = default;
  ~GlobalCell() = default;

 private:
  T* at_;
};

/// Elements of device memory; indices are checked here and free on the device.
template <class T>
class Global {
 public:
  Global() = default;
  Global(Machine& machine, T* data, std::int64_t count)
      : machine_(&machine), data_(data), count_(count) {}

  auto operator[](std::int64_t i) const {
    if constexpr (std::is_const_v<T>) {
      const T* const at = checked(i, 1);
      return at == nullptr ? std::remove_const_t<T>{} : *at;
    } else {
      return GlobalCell<T>(checked(i, 1));
    }
  }
  /// Whether there is anything to look at: optional operands.
  explicit operator bool() const { return data_ != nullptr; }
  /// Address of `width` elements from i on; null where they are not all there.
  T* checked(std::int64_t i, std::int64_t width) const {
    if (i < 0 || i + width > count_) {
      machine_->report(
          Mistake::out_of_bounds,
          "element " + std::to_string(i) + " of " + std::to_string(count_) + " in device memory");
      return nullptr;
    }
    return data_ + i;
  }
  [[nodiscard]] Machine& machine() const { return *machine_; }

 private:
  Machine* machine_ = nullptr;
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

template <class T>
class SharedCell {
 public:
  SharedCell(Machine& machine, std::int64_t at) : machine_(&machine), at_(at) {}
  operator T() const {  // NOLINT: as the device's T&
    T value{};
    if (machine_->shared_read(at_, sizeof(T))) {
      std::memcpy(&value, machine_->shared(at_), sizeof(T));
    }
    return value;
  }
  const SharedCell& operator=(T value) const {
    if (machine_->shared_write(at_, sizeof(T))) {
      std::memcpy(machine_->shared(at_), &value, sizeof(T));
    }
    return *this;
  }
  const SharedCell& operator=(const SharedCell& other) const { return *this = T(other); }
  const SharedCell& operator+=(T value) const { return *this = T(*this) + value; }
  SharedCell(const SharedCell&) = default;
  ~SharedCell() = default;

 private:
  Machine* machine_;
  std::int64_t at_;
};

/// `count` elements of the block's shared memory.
template <class T>
class Shared {
 public:
  Shared(Machine& machine, std::int64_t begin, std::int64_t count)
      : machine_(&machine), begin_(begin), count_(count) {}
  SharedCell<T> operator[](std::int64_t i) const {
    constexpr std::int64_t nowhere = -(std::int64_t{1} << 40);
    return SharedCell<T>(*machine_, i >= 0 && i < count_ ? address(i) : nowhere);
  }
  [[nodiscard]] std::int64_t address(std::int64_t i) const {
    return begin_ + i * static_cast<std::int64_t>(sizeof(T));
  }
  [[nodiscard]] Machine& machine() const { return *machine_; }

 private:
  Machine* machine_;
  std::int64_t begin_;
  std::int64_t count_;
};

// ---- threads

class Thread {
 public:
  Thread(Machine& machine, int index) : machine_(&machine), index_(index) {}

  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] int lane() const { return index_ % warp_size; }
  [[nodiscard]] int warp() const { return index_ / warp_size; }
  [[nodiscard]] std::int64_t block() const { return machine_->block_x_; }
  [[nodiscard]] std::int64_t block_y() const { return machine_->block_y_; }
  [[nodiscard]] std::int64_t blocks() const { return machine_->grid_.x; }

  /// All threads of the block.
  void sync() const { machine_->wait_for_block(); }
  /// All lanes of the warp; orders their accesses to shared memory.
  void sync_warp() const { machine_->sync_warp(); }
  /// Value of the lane whose number differs in the bits of `mask`; orders no accesses to memory.
  template <class T>
  T shuffle_xor(T value, int mask) const {
    return shuffle(value, lane() ^ mask);
  }
  template <class T>
  T shuffle(T value, int from) const {
    struct Operand {
      T value;
      int from;
      T result;
    } mine{value, from, T{}};
    machine_->wait_for_warp(
        [](std::span<void* const, warp_size> lanes) {
          for (void* const lane : lanes) {
            auto* const operand = static_cast<Operand*>(lane);
            operand->result =
                static_cast<Operand*>(lanes[static_cast<std::size_t>(operand->from)])->value;
          }
        },
        &mine);
    return mine.result;
  }
  [[nodiscard]] bool any(bool value) const { return first(value) < warp_size; }
  /// The first lane whose value is true; warp_size where none is.
  [[nodiscard]] int first(bool value) const {
    struct Operand {
      bool value;
      int first;
    } mine{value, warp_size};
    machine_->wait_for_warp(
        [](std::span<void* const, warp_size> lanes) {
          int first = 0;
          while (first < warp_size &&
                 !static_cast<Operand*>(lanes[static_cast<std::size_t>(first)])->value) {
            ++first;
          }
          for (void* const lane : lanes) {
            static_cast<Operand*>(lane)->first = first;
          }
        },
        &mine);
    return mine.first;
  }

  template <class T>
  Shared<T> shared(std::int64_t begin_bytes, std::int64_t count) const {
    return Shared<T>(*machine_, begin_bytes, count);
  }
  void atomic_min(const Global<std::int64_t>& at, std::int64_t i, std::int64_t value) const {
    at[i] = smaller(at[i], value);
  }

  // ---- asynchronous copies of 16 bytes into shared memory (cp.async)

  /// Zeros arrive where `valid` is false.
  template <class T>
  void copy_async(const Shared<T>& to,
                  std::int64_t to_index,
                  const Global<const T>& from,
                  std::int64_t from_index,
                  bool valid = true) const {
    constexpr std::int64_t bytes = 16;
    const T* source =
        valid ? from.checked(from_index, bytes / static_cast<std::int64_t>(sizeof(T))) : nullptr;
    if (to.address(to_index) % bytes != 0 ||
        reinterpret_cast<std::uintptr_t>(source) % bytes != 0) {
      machine_->report(Mistake::misaligned, "an asynchronous copy not on 16 bytes");
      return;
    }
    machine_->copy_async(to.address(to_index),
                         static_cast<const std::byte*>(static_cast<const void*>(source)),
                         bytes);
  }
  void commit_copies() const { machine_->commit_copies(); }
  template <int pending>
  void wait_copies() const {
    machine_->wait_copies(pending);
  }

 private:
  Machine* machine_;
  int index_;
};

// ---- launches

/// What a launcher enqueues on: here a machine, on the device a stream.
struct Queue {
  Machine* machine = nullptr;
  template <class T>
  Global<T> view(T* data, std::int64_t count) const {
    return Global<T>(*machine, data, count);
  }
};

template <class Kernel>
Status launch(const Queue& queue, const Grid& grid, const Kernel& kernel) {
  static_assert(Kernel::threads % warp_size == 0);
  queue.machine->run(
      grid,
      Kernel::threads,
      [](const void* body, const Thread& thread) { (*static_cast<const Kernel*>(body))(thread); },
      &kernel);
  return {};
}

}  // namespace parbuckle::simt
