// Arguments of fold.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

struct FoldWordsParams {
  DEV const uint* from;
  DEV uint* sink;              // [groups]
  uint bytes_low, bytes_high;  // 64 bits in two; a multiple of 16
};
LILY_PARAMS(FoldWordsParams, 24);

// A matrix W [rows, cols], row-major as spec/layout.h has it.
struct FoldRowsParams {
  DEV const uint* codes;
  DEV const ushort* scales;
  DEV const ushort* biases;
  DEV uint* sink;  // [groups]
  uint rows, cols, bits, unused;
};
LILY_PARAMS(FoldRowsParams, 48);
