// Rows of a launch with four weight rows, by one simdgroup. Included by kernels after
// linear_params.h and dialect.h.
#pragma once

#include "backend/gpu/kernels/few_rows.h"
#include "backend/gpu/kernels/linear_rows.h"

// Weight rows row0 .. row0 + 3 of a part with rows t0 .. t0 + kX - 1 of the launch's `all`. Norm: y
// = x W^T of the normed rows, else y += x W^T.
template <uint kX, bool kNorm>
FN void linear_few_four(CON LinearParams& a, CON LinearPart& part, uint row0, uint t0, uint all,
                        uint lane) {
  const uint n = u_min(all - t0, kX);
  const FewWeights w = {part.codes, part.scales, part.biases, row0, part.rows - 1};
  ulong rows[kX];
  float sums[kX * kFewWeightRows], squares[kX];
  UNROLL for (uint t = 0; t < kX; t++) {
    rows[t] = (ulong)linear_row(a, u_min(t0 + t, all - 1)) * a.cols;
    squares[t] = 0.0f;
  }
  UNROLL for (uint i = 0; i < kX * kFewWeightRows; i++) sums[i] = 0.0f;
  few_rows<kX, kNorm>(w, part.bits, a.cols, lane, 32, a.x, rows, n, a.norm, sums, squares);
  UNROLL for (uint t = 0; t < kX; t++) {
    if (t < n) {
      const float factor = kNorm ? m_rsqrt(lanes_sum(squares[t]) / (float)a.cols + a.eps) : 1.0f;
      DEV float* y = part.y + (ulong)(t0 + t) * part.rows + row0;
      UNROLL for (uint r = 0; r < kFewWeightRows; r++) {
        const float sum = lanes_sum(sums[t * kFewWeightRows + r]);
        if (lane == 0 && row0 + r < part.rows) y[r] = kNorm ? sum * factor : y[r] + sum;
      }
    }
  }
}
