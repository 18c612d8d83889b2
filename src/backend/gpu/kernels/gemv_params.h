// Arguments of gemv.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

// y [rows] = W x. W [rows, cols] affine in groups of 64, row-major as spec/layout.h has it; every
// part 16-byte aligned.
struct GemvParams {
  DEV const uint* codes;     // [rows, cols * bits / 32]
  DEV const ushort* scales;  // [rows, cols / 64] bf16
  DEV const ushort* biases;  // [rows, cols / 64] bf16
  DEV const float* x;        // [cols]
  DEV float* y;              // [rows]
  uint rows, cols;
};
LILY_PARAMS(GemvParams, 48);
