// Rows of a launch with quads of weight rows, each warp its own: a ring of quads in shared memory
// that copies fill ahead. Included after dialect.h, stage.h, int8_rows.h and linear_params.h.
#pragma once

#include "backend/gpu/cuda/kernels/int8_rows.h"
#include "backend/gpu/kernels/linear_params.h"
#include "backend/gpu/kernels/linear_rows.h"

// A quad of the launch: four rows of one part.
struct LinearQuad {
  uint part, row0, n;
};
FN uint linear_quads(const LinearParams& a) {
  uint n = 0;
  UNROLL for (uint p = 0; p < 4; p++) n += (a.parts[p].rows + 3) / 4;
  return n;
}
FN LinearQuad linear_quad(const LinearParams& a, uint quad) {
  LinearQuad q;
  q.part = linear_part(a, kQuadRows, quad);
  q.row0 = quad * kQuadRows;
  q.n = u_min(a.parts[q.part].rows - q.row0, kQuadRows);
  return q;
}

template <uint kSteps>
FN void fetch_quad(const LinearParams& a, const QuadShape& shape, uchar* to, const LinearQuad& q,
                   uint lane) {
  const LinearPart& part = a.parts[q.part];
  const ExpertMatrix m = {part.codes, part.scales, part.biases, a.cols, part.bits};
  copy_rows<kSteps>(to, shape, m, q.row0, 0, q.n, lane);
}

// The launch's n rows of x in shared memory, x_bytes apart, and their squares [n][8].
FN void stage_rows(const LinearParams& a, const float* norm, uint n, uchar* xs, uint x_bytes,
                   float* squares) {
  for (uint t = 0; t < n; t++) {
    store_row(xs + t * x_bytes, a.x + (ulong)linear_row(a, t) * a.cols, norm, a.cols,
              squares + t * kRowWarps);
  }
}

// factor: of the first row.
template <uint kSteps>
FN void finish_quad(const LinearParams& a, const QuadShape& shape, const uchar* quad,
                    const LinearQuad& q, uint n, const uchar* xs, uint x_bytes,
                    const float* squares, float factor, uint lane) {
  const LinearPart& part = a.parts[q.part];
  const uint r = lane / 8;
  const bool writes = lane % 8 == 0 && r < q.n;
  for (uint t = 0; t < n; t++) {
    float* y = part.y + (ulong)t * part.rows + q.row0 + r;
    float sums[kQuadRows];
    quad_sums<kSteps>(quad, shape, xs + t * x_bytes, lane, sums);
    const float sum = sum_quad(sums, lane);
    if (t > 0) factor = norm_factor(squares + t * kRowWarps, a.cols, a.eps, lane);
    if (writes) *y = sum * factor;
  }
}
