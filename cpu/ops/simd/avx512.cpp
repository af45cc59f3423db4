#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#include "cpu/ops/simd/kernels.h"
#include "cpu/ops/simd/tables.h"

#define PARBUCKLE_ISA avx512
#include "cpu/ops/simd/table.inc"

namespace parbuckle::cpu {

constinit const Kernels avx512_kernels = avx512::table("avx512");

}  // namespace parbuckle::cpu
