// The gated norm at the end of the delta rule: y = o / sqrt(mean(o^2) + eps) * norm * act(z), one
// head of one row by one simdgroup, 4 dims a lane. Included by kernels after dialect.h.
#pragma once

#include "backend/gpu/kernels/floats.h"

// z, norm, y: at the head's first dim.
FN void gdn_gate(const THR float* o, DEV const float* z, DEV const float* norm, DEV float* y,
                 uint z_sigmoid, float eps, uint lane) {
  float gate[4], weight[4], out[4];
  load_floats(z + lane * 4, gate);
  load_floats(norm + lane * 4, weight);
  float squares = 0.0f;
  UNROLL for (uint e = 0; e < 4; e++) squares = m_fma(o[e], o[e], squares);
  const float inverse = m_rsqrt(lanes_sum(squares) / 128.0f + eps);
  UNROLL for (uint e = 0; e < 4; e++) {
    const float act = z_sigmoid != 0 ? m_sigmoid(gate[e]) : m_silu(gate[e]);
    out[e] = o[e] * inverse * weight[e] * act;
  }
  store_floats(y + lane * 4, out);
}
