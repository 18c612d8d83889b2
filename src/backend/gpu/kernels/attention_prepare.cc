// attention_prepare: q and k of each head through rmsnorm over 256 dims, their first 64 dims turned
// by the row's position in pairs (i, i + 32), q times 1/16; keys and values to the cache as bf16.
// In one kernel, or in three that hand heads on through q and keys: query_key_norm, query_key_rope,
// kv_append. Passes of one row need neither: attention_few.cc does the same on its way.
//
// Grid: y rows, x ceil(heads / 4) groups of 128 threads: a simdgroup per head of q, then of k, then
// of v; 1,024-byte reads.
// Traffic: q, k, v in, q and the cache out, each once; apart, q and k three times.
#include "backend/gpu/kernels/attention_prepare_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/kv_pages.h"
#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/query_key.h"

// What a simdgroup works on: a head of one row, numbered through q, k and v.
struct AttentionPrepareHead {
  ulong row;
  uint kind, head;  // kind 0: q, 1: k, 2: v
  uint position;
  int sequence;
};

// False: there is none. `first`: the first of all heads that the kernel has a business with.
FN bool attention_prepare_head(CON AttentionPrepareParams& a, uint first, uint last,
                               THR AttentionPrepareHead& h, const THR Ids& id) {
  const uint index = first + id.group.x * 4 + id.simd;
  PassBlock block;
  pass_row(a.control, id.group.y, block);
  h.row = id.group.y;
  h.position = (uint)block.position + block.first;
  h.sequence = block.sequence;
  const uint behind = index < a.n_q_heads ? 0 : index - a.n_q_heads;
  h.kind = index < a.n_q_heads ? 0 : 1 + behind / a.n_kv_heads;
  h.head = h.kind == 0 ? index : behind % a.n_kv_heads;
  return block.n > 0 && index < last;
}

FN uint attention_prepare_all(CON AttentionPrepareParams& a) {
  return a.n_q_heads + 2 * a.n_kv_heads;
}

// Where the projection left it.
FN DEV const float* attention_prepare_source(CON AttentionPrepareParams& a,
                                             const THR AttentionPrepareHead& h) {
  if (h.kind == 0) return a.q_gate + (h.row * a.n_q_heads + h.head) * 512;
  return (h.kind == 1 ? a.k : a.v) + (h.row * a.n_kv_heads + h.head) * 256;
}

// Where a head of q, or of k between kernels, is kept.
FN DEV float* attention_prepare_place(CON AttentionPrepareParams& a,
                                      const THR AttentionPrepareHead& h) {
  return h.kind == 0 ? a.q + (h.row * a.n_q_heads + h.head) * 256
                     : a.keys + (h.row * a.n_kv_heads + h.head) * 256;
}

FN void attention_prepare_append(CON AttentionPrepareParams& a, const THR AttentionPrepareHead& h,
                                 uint lane, const THR float* x) {
  const KvPages kv = {a.pages, a.page_table, a.table_stride, a.n_kv_heads};
  DEV ushort* to = kv_page(kv, h.sequence, h.position / kKvPage, h.head);
  to += ((h.kind == 2 ? kKvPage : 0) + h.position % kKvPage) * 256;
  ((DEV uint4*)to)[lane] = head_bf16(x);
}

FN void attention_prepare_turn(CON AttentionPrepareParams& a, const THR AttentionPrepareHead& h,
                               uint lane, THR float* x) {
  HeadTurn turn;
  head_turn(a.frequencies, h.position, a.rope_magnitude, lane, turn);
  head_rope(x, turn, lane);
  if (h.kind == 0) head_scale(x);
}

KERNEL(attention_prepare, AttentionPrepareParams, NoShared, 128) {
  AttentionPrepareHead h;
  if (attention_prepare_head(a, 0, attention_prepare_all(a), h, id)) {
    float x[8];
    head_load(attention_prepare_source(a, h), id.lane, x);
    if (h.kind != 2) {
      head_norm(x, h.kind == 0 ? a.q_norm : a.k_norm, a.eps, id.lane);
      attention_prepare_turn(a, h, id.lane, x);
    }
    if (h.kind == 0) head_store(attention_prepare_place(a, h), id.lane, x);
    if (h.kind != 0) attention_prepare_append(a, h, id.lane, x);
  }
}

KERNEL(query_key_norm, AttentionPrepareParams, NoShared, 128) {
  AttentionPrepareHead h;
  if (attention_prepare_head(a, 0, a.n_q_heads + a.n_kv_heads, h, id)) {
    float x[8];
    head_load(attention_prepare_source(a, h), id.lane, x);
    head_norm(x, h.kind == 0 ? a.q_norm : a.k_norm, a.eps, id.lane);
    head_store(attention_prepare_place(a, h), id.lane, x);
  }
}

KERNEL(query_key_rope, AttentionPrepareParams, NoShared, 128) {
  AttentionPrepareHead h;
  if (attention_prepare_head(a, 0, a.n_q_heads + a.n_kv_heads, h, id)) {
    float x[8];
    head_load(attention_prepare_place(a, h), id.lane, x);
    attention_prepare_turn(a, h, id.lane, x);
    head_store(attention_prepare_place(a, h), id.lane, x);
  }
}

KERNEL(kv_append, AttentionPrepareParams, NoShared, 128) {
  AttentionPrepareHead h;
  if (attention_prepare_head(a, a.n_q_heads, attention_prepare_all(a), h, id)) {
    float x[8];
    DEV const float* normed = attention_prepare_place(a, h);
    head_load(h.kind == 1 ? normed : attention_prepare_source(a, h), id.lane, x);
    attention_prepare_append(a, h, id.lane, x);
  }
}
