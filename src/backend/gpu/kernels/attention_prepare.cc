// attention_prepare: q and k of each head through rmsnorm over 256 dims, their first 64 dims turned
// by the row's position in pairs (i, i + 32), q times 1/16; keys and values to the cache as bf16.
//
// Grid: y rows, x ceil((Hq + 2 Hkv) / 4) groups of 128 threads: a simdgroup per head of q, k or v.
// A lane holds dims lane + 32 j, so a pair is one lane's, and reads and writes are adjacent.
// Traffic: q, k, v in, q and the cache out, each once.
#include "backend/gpu/kernels/attention_prepare_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/kv_pages.h"
#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/rope.h"

// x [8] = dims lane + 32 j of a head, normed and turned.
FN void attention_prepare_turn(CON AttentionPrepareParams& a, THR float* x, DEV const float* norm,
                               uint position, uint lane) {
  float squares = 0.0f;
  UNROLL for (uint j = 0; j < 8; j++) squares = m_fma(x[j], x[j], squares);
  const float inverse = m_rsqrt(lanes_sum(squares) / 256.0f + a.eps);
  UNROLL for (uint j = 0; j < 8; j++) x[j] = x[j] * inverse * norm[lane + 32 * j];
  const ulong turns = rope_turns(a.frequencies[2 * lane], a.frequencies[2 * lane + 1]);
  RopeTurn turn;
  rope_turn(turns, position, turn);
  const float c = turn.cosine * a.rope_magnitude, s = turn.sine * a.rope_magnitude;
  const float x0 = x[0], x1 = x[1];
  x[0] = m_fma(x0, c, -(x1 * s));
  x[1] = m_fma(x1, c, x0 * s);
}

FN void attention_prepare_load(DEV const float* from, THR float* x, uint lane) {
  UNROLL for (uint j = 0; j < 8; j++) x[j] = from[lane + 32 * j];
}

FN void attention_prepare_query(CON AttentionPrepareParams& a, ulong row, uint head, uint position,
                                uint lane) {
  const ulong index = row * a.n_q_heads + head;
  float x[8];
  attention_prepare_load(a.q_gate + index * 512, x, lane);
  attention_prepare_turn(a, x, a.q_norm, position, lane);
  UNROLL for (uint j = 0; j < 8; j++) a.q[index * 256 + lane + 32 * j] = x[j] * 0.0625f;
}

FN void attention_prepare_cache(CON AttentionPrepareParams& a, const THR PassBlock& block,
                                ulong row, uint head, bool is_value, uint position, uint lane) {
  const ulong index = row * a.n_kv_heads + head;
  float x[8];
  attention_prepare_load((is_value ? a.v : a.k) + index * 256, x, lane);
  if (!is_value) attention_prepare_turn(a, x, a.k_norm, position, lane);
  const KvPages kv = {a.pages, a.page_table, a.table_stride, a.n_kv_heads};
  DEV ushort* to = kv_page(kv, block.sequence, position / kKvPage, head);
  to += ((is_value ? kKvPage : 0) + position % kKvPage) * 256;
  UNROLL for (uint j = 0; j < 8; j++) to[lane + 32 * j] = f_to_bf16(x[j]);
}

KERNEL(attention_prepare, AttentionPrepareParams, NoShared, 128) {
  PassBlock block;
  pass_row(a.control, id.group.y, block);
  const uint position = (uint)block.position + block.first;
  const uint head = id.group.x * 4 + id.simd, n_all = a.n_q_heads + 2 * a.n_kv_heads;
  if (block.n > 0 && head < n_all) {
    if (head < a.n_q_heads) {
      attention_prepare_query(a, id.group.y, head, position, id.lane);
    } else {
      const uint kv_head = (head - a.n_q_heads) % a.n_kv_heads;
      const bool is_value = head >= a.n_q_heads + a.n_kv_heads;
      attention_prepare_cache(a, block, id.group.y, kv_head, is_value, position, id.lane);
    }
  }
}
