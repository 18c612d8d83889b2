// Dots of codes with activations: what an instruction set brings of its own.
//   group_dots<R, Bits>   integer dots of a (block, group) record with R packed rows, as floats
//   load_codes<Bits>, low_column, high_column   eight columns of a block as floats, for the exact products
//   code_sums             sums of the packed codes of a group
#pragma once

#if defined(LILY_ISA_AVX2)
#include "backend/cpu/kernels/linear_avx2.h"
#else
#include "backend/cpu/kernels/linear_portable.h"
#endif
