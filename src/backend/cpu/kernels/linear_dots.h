// What an instruction set brings of its own to the products:
//   kInt8TileBlocks: blocks that an int8 tile can take side by side, 1 or 2
//   kInt8TileRows, kExactTileRows: packed rows that a tile takes at most
//   group_dots<B, R, Bits>: integer dots of a group of B blocks with R packed rows, as floats
//   load_codes<Bits, High>, column: four columns of a block, one of them as floats
//   code_sums: sums of the packed codes of a group
#pragma once

#if defined(LILY_ISA_AVX512)
#include "backend/cpu/kernels/linear_avx512.h"
#elif defined(LILY_ISA_AVX2)
#include "backend/cpu/kernels/linear_avx2.h"
#elif defined(LILY_ISA_NEON)
#include "backend/cpu/kernels/linear_neon.h"
#else
#include "backend/cpu/kernels/linear_portable.h"
#endif
