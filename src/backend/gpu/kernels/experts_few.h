// Products of one row with four rows of an expert's matrix. Included by kernels after
// experts_params.h and dialect.h.
#pragma once

#include "backend/gpu/kernels/few_rows.h"

// Sums of the lane over four rows of m with one row of activations.
FN void few_one(CON ExpertMatrix& m, ulong first, uint row0, uint rows, uint step, uint stride,
                DEV const float* x, THR float* sums) {
  const FewWeights w = {m.codes, m.scales, m.biases, first + row0, first + rows - 1};
  const ulong at[1] = {0};
  float unused[1] = {0.0f};
  UNROLL for (uint r = 0; r < kFewWeightRows; r++) sums[r] = 0.0f;
  few_rows<1, false>(w, m.bits, m.cols, step, stride, x, at, 1, x, sums, unused);
}
