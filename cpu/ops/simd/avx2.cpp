#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#include "cpu/ops/simd/kernels.h"
#include "cpu/ops/simd/tables.h"

#define PARBUCKLE_ISA avx2
#include "cpu/ops/simd/table.inc"

namespace parbuckle::cpu {

constinit const Kernels avx2_kernels = avx2::table("avx2");

}  // namespace parbuckle::cpu
