// Arguments of gemm.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

// y [n, rows] = x [n, cols] W^T. W as in gemv_params.h.
struct GemmParams {
  DEV const uint* codes;     // [rows, cols * bits / 32]
  DEV const ushort* scales;  // [rows, cols / 64] bf16
  DEV const ushort* biases;  // [rows, cols / 64] bf16
  DEV const float* x;        // [n, cols], rounded to bf16 on the way in
  DEV float* y;              // [n, rows]
  uint n, rows, cols;
  uint unused;
};
LILY_PARAMS(GemmParams, 56);
