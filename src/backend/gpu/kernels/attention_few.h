// What the two kernels of attention for few rows share: how a context is cut into parts, a row's
// queries, a score. Included by kernels after attention_few_params.h and dialect.h.
#pragma once

#include "backend/gpu/kernels/kv_pages.h"
#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/query_key.h"

KERNEL_CONST float kAttentionLeast = -3e38f;

// The pages of a row's context, which is what lies before its own position. Part p has pages
// first, first + step ... below end.
struct AttentionSplit {
  uint n_positions, n_pages, n_parts;
  bool blocks;
};
FN void attention_split(CON AttentionFewParams& a, uint n_positions, THR AttentionSplit& split) {
  split.n_positions = n_positions;
  split.n_pages = (n_positions + kKvPage - 1) / kKvPage;
  split.blocks = n_positions >= a.block_from;
  split.n_parts = split.blocks ? (split.n_pages + a.block_pages - 1) / a.block_pages
                               : u_min(split.n_pages, kAttentionParts);
}

struct AttentionPart {
  uint first, end, step;
};
FN void attention_part(CON AttentionFewParams& a, const THR AttentionSplit& split, uint index,
                       THR AttentionPart& part) {
  part.first = split.blocks ? index * a.block_pages : index;
  part.end = split.blocks ? u_min(part.first + a.block_pages, split.n_pages) : split.n_pages;
  part.step = split.blocks ? 1 : kAttentionParts;
}

// The turn of a position, where queries and keys come as they left the projection.
FN void attention_few_turn(CON AttentionFewParams& a, uint position, uint lane,
                           THR HeadTurn& turn) {
  UNROLL for (uint e = 0; e < 8; e++) {
    turn.cosine[e] = 1.0f;
    turn.sine[e] = 0.0f;
  }
  if (a.k != nullptr) head_turn(a.frequencies, position, a.rope_magnitude, lane, turn);
}

// The lane's 8 dims of a query; head: row * Hq + head.
FN void attention_few_query(CON AttentionFewParams& a, ulong head, const THR HeadTurn& turn,
                            uint lane, THR float* q) {
  if (a.k == nullptr) {
    head_load(a.q + head * 256, lane, q);
  } else {
    head_load(a.q_gate + head * 512, lane, q);
    head_norm(q, a.q_norm, a.eps, lane);
    head_rope(q, turn, lane);
    head_scale(q);
  }
}

// The lane's part of q k.
FN float attention_few_dot(const THR float* q, const THR float* k) {
  float sum = q[0] * k[0];
  UNROLL for (uint d = 1; d < 8; d++) sum = m_fma(q[d], k[d], sum);
  return sum;
}
