#include "cpu/ops/simd/kernels.h"

#include "cpu/ops/simd/tables.h"

namespace parbuckle::cpu {

Isa best_isa() {
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return wide ? Isa::avx512 : Isa::avx2;
}

const Kernels& kernels_for(Isa isa) {
  return isa == Isa::avx512 ? avx512_kernels : avx2_kernels;
}

}  // namespace parbuckle::cpu
