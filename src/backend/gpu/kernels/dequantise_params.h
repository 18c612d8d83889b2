// Arguments of dequantise.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

// out = the weights of n rows, or nothing where the pass has fewer head rows than `head_rows`.
struct DequantiseParams {
  DEV const int* control;
  DEV const uint* codes;     // [rows, cols * bits / 32]
  DEV const ushort* scales;  // [rows, cols / 64] bf16
  DEV const ushort* biases;  // [rows, cols / 64] bf16
  DEV ushort* out;           // [rows, cols] bf16
  uint rows, cols, bits;
  uint head_rows;
};
LILY_PARAMS(DequantiseParams, 56);
