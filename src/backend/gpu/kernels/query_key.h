// A head of q or k through its norm and rope, by one simdgroup, 8 consecutive dims a lane: every
// kernel that prepares heads does it here, so all give the same bits. Included by kernels after
// dialect.h.
#pragma once

#include "backend/gpu/kernels/floats.h"
#include "backend/gpu/kernels/rope.h"

// By how much each of a lane's dims is turned; of use to the first 8 lanes, which hold the 64 dims
// that turn.
struct HeadTurn {
  float cosine[8], sine[8];
};

// A lane works out one of the 32 angles and reads its 8 from the others.
FN void head_turn(DEV const uint* frequencies, uint position, float magnitude, uint lane,
                  THR HeadTurn& turn) {
  RopeTurn mine;
  rope_turn(rope_turns(frequencies[2 * lane], frequencies[2 * lane + 1]), position, mine);
  const float cosine = mine.cosine * magnitude, sine = mine.sine * magnitude;
  UNROLL for (uint e = 0; e < 8; e++) {
    turn.cosine[e] = lanes_read(cosine, lane % 4 * 8 + e);
    turn.sine[e] = lanes_read(sine, lane % 4 * 8 + e);
  }
}

FN void head_load(DEV const float* from, uint lane, THR float* x) {
  load_floats(from + lane * 8, x);
  load_floats(from + lane * 8 + 4, x + 4);
}
FN void head_store(DEV float* to, uint lane, const THR float* x) {
  store_floats(to + lane * 8, x);
  store_floats(to + lane * 8 + 4, x + 4);
}
// As the cache holds it: 16 bytes a lane.
FN uint4 head_bf16(const THR float* x) {
  return make_uint4(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]), bf16_pair(x[4], x[5]),
                    bf16_pair(x[6], x[7]));
}

// x / sqrt(mean(x^2) + eps) * norm, over the head.
FN void head_norm(THR float* x, DEV const float* norm, float eps, uint lane) {
  float weight[8];
  head_load(norm, lane, weight);
  float squares = 0.0f;
  UNROLL for (uint e = 0; e < 8; e++) squares = m_fma(x[e], x[e], squares);
  const float inverse = m_rsqrt(lanes_sum(squares) / 256.0f + eps);
  UNROLL for (uint e = 0; e < 8; e++) x[e] = x[e] * inverse * weight[e];
}

// Pairs (i, i + 32) lie four lanes apart.
FN void head_rope(THR float* x, const THR HeadTurn& turn, uint lane) {
  UNROLL for (uint e = 0; e < 8; e++) {
    const float side = lanes_xor(x[e], 4) * turn.sine[e];
    if (lane < 8) x[e] = m_fma(x[e], turn.cosine[e], lane < 4 ? -side : side);
  }
}

// Of queries only: 1 / sqrt(256), so that scores need no factor.
FN void head_scale(THR float* x) {
  UNROLL for (uint e = 0; e < 8; e++) x[e] *= 0.0625f;
}
