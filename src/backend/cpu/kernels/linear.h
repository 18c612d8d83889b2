// Products with quantised matrices.
#pragma once

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd.h"

namespace lily::cpu::LILY_ISA {

inline LinearKernels linear_kernels() { return {}; }

}  // namespace lily::cpu::LILY_ISA
