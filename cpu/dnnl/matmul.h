// Matrix products by oneDNN, behind one interface for its 2.x and 3.x APIs. All matrices are dense and row-major; a
// transposed operand is stored as its transpose. Bits are a function of the key, the number of threads, the
// instruction set and the library, and of nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "parbuckle/status.h"

namespace parbuckle::cpu {

/// c(M,N) = a(M,K) b(K,N) [+ c] [+ bias(N)] in fp32.
struct MatmulKey {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool a_transposed = false;  // a is stored (K,M)
  bool b_transposed = false;  // b is stored (N,K)
  bool accumulate = false;    // c is added to, by the sum post-op
  bool bias = false;
  friend bool operator==(const MatmulKey&, const MatmulKey&) = default;
};

struct MatmulArgs {
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  const float* bias = nullptr;  // read if the key says so
  void* workspace = nullptr;    // as many bytes as prepare() said, 64-byte aligned
};

/// Primitives by shape, least recently used dropped first. For one thread at a time, like the team it computes on.
class MatmulCache {
 public:
  /// REQUIRES: capacity >= 1. oneDNN's own global cache is switched off: what is kept is kept and counted here.
  static Result<std::unique_ptr<MatmulCache>> create(int capacity);
  ~MatmulCache();
  MatmulCache(const MatmulCache&) = delete;
  MatmulCache& operator=(const MatmulCache&) = delete;
  MatmulCache(MatmulCache&&) = delete;
  MatmulCache& operator=(MatmulCache&&) = delete;

  /// Creates the primitive unless it is there; returns its workspace in bytes.
  Result<std::int64_t> prepare(const MatmulKey& key);

  /// Computes. A primitive that was dropped since prepare() is made again, with the same bits.
  Status run(const MatmulKey& key, const MatmulArgs& args);

  [[nodiscard]] int size() const;
  /// Estimated resident memory of what is kept: primitives, their generated code, their descriptors.
  [[nodiscard]] std::int64_t resident_bytes() const;

 private:
  struct State;
  explicit MatmulCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// "oneDNN 2.6.3, avx512_core": what the bits of a product depend on besides shapes and threads.
std::string matmul_library();

}  // namespace parbuckle::cpu
