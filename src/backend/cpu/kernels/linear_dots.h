// What an instruction set brings of its own to the products:
//   group_dots<R, Bits>: integer dots of a (block, group) record with R packed rows, as floats
//   load_codes<Bits, High>, column: four columns of a block, one of them as floats
//   code_sums: sums of the packed codes of a group
#pragma once

#if defined(LILY_ISA_AVX2)
#include "backend/cpu/kernels/linear_avx2.h"
#else
#include "backend/cpu/kernels/linear_portable.h"
#endif
