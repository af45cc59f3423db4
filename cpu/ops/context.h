// What one CPU device owns: its team of threads, its matrix primitives, the inner loops for its processor.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "parbuckle/status.h"

#include "cpu/dnnl/matmul.h"
#include "cpu/ops/simd/kernels.h"
#include "cpu/parallel/team.h"

namespace parbuckle::cpu {

struct ContextOptions {
  int threads = 1;
  CoreRange cores = {};        // of the threads
  Isa isa = best_isa();        // of our own loops; does not change their bits
  int matmul_primitives = 96;  // kept at most
};

/// For one thread at a time; several contexts may live in one process.
class Context {
 public:
  /// Fails where threads < 1, the processor lacks AVX2, or oneDNN has no CPU engine.
  static Result<std::unique_ptr<Context>> create(const ContextOptions& options);
  static Result<std::unique_ptr<Context>> create(int threads);

  [[nodiscard]] const Team& team() const { return team_; }
  [[nodiscard]] MatmulCache& matmuls() const { return *matmuls_; }
  [[nodiscard]] const Kernels& kernels() const { return *kernels_; }

  /// What bits depend on here besides data and shapes: "oneDNN 2.6.3, avx512_core, 2 threads, attention tile 64, head tile 256".
  [[nodiscard]] std::string signature() const;
  /// Estimated resident memory of the primitives kept: part of the declared runtime reserve.
  [[nodiscard]] std::int64_t resident_bytes() const { return matmuls_->resident_bytes(); }

 private:
  Context(const ContextOptions& options, std::unique_ptr<MatmulCache> matmuls)
      : team_(options.threads, options.cores),
        matmuls_(std::move(matmuls)),
        kernels_(&kernels_for(options.isa)) {}

  Team team_;
  std::unique_ptr<MatmulCache> matmuls_;
  const Kernels* kernels_;
};

}  // namespace parbuckle::cpu
