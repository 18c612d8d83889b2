// Arguments of linear_few.cc and linear_tile.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

// One matrix W [rows, cols], row-major as spec/layout.h has it, and where its product goes.
struct LinearPart {
  DEV const uint* codes;     // [rows, cols * bits / 32]; bits 16, on tiles: bf16 numbers
  DEV const ushort* scales;  // [rows, cols / 64] bf16
  DEV const ushort* biases;  // [rows, cols / 64] bf16
  DEV float* y;              // [T, rows]
  uint rows, bits;           // rows 0: no such part
  uint stride, unused;       // of y on tiles, where W may be some rows of a matrix only
};

// y of each part = x W^T, or y += x W^T. The rows of x are those of the pass, or, with `head`, its
// head rows from `first` on, at most 32 of them. A launch whose number of rows is not in least ..
// most does nothing: so a pass whose number of head rows is known on the device only names both
// ways to multiply.
struct LinearParams {
  LinearPart parts[4];
  DEV const int* control;
  DEV const float* x;     // [T, cols]
  DEV const float* norm;  // [cols]; kernels without norm do not read it
  uint cols, head, first, least, most;
  float eps;
};
LILY_PARAMS(LinearParams, 240);
