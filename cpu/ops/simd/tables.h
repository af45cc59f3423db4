// The two builds of the inner loops; kernels_for() chooses.
#pragma once

#include "cpu/ops/simd/kernels.h"

namespace parbuckle::cpu {

extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;

}  // namespace parbuckle::cpu
