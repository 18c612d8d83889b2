// attention for few rows, the second of two kernels: what the parts of a row's context gave
// (attention_few.cc) and the row's own position, joined in one order, divided, gated.
// The own position is apart because in passes of one row nobody has prepared it: its key and value
// then come from the projection, and the group of the KV head's first query head writes them to the
// cache. Rounded to bf16 they are what the cache gives, so both ways have the same bits.
// Grid: x Hq, y rows; 256 threads: four times 64, of which each adds every fourth part, 4 dims a
// thread, 1,024-byte reads.
// Traffic: the parts once, 1 KiB each.
#include "backend/gpu/kernels/attention_few_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/attention_few.h"

struct AttentionMergeShared {
  float weights[512];
  float parts[2][32];
  float own;  // The score of the row's own position.
  float4 mix[4 * 64];
};

struct AttentionMergeTask {
  ulong head, kv_row;  // row * Hq + head; row * Hkv + KV head
  uint position;
  bool writes;
  DEV ushort* key;  // The row's own in the cache; its value follows at kKvPage * 256.
};
FN void attention_merge_task(CON AttentionFewParams& a, const THR PassBlock& block,
                             THR AttentionMergeTask& task, const THR Ids& id) {
  const uint group = a.n_q_heads / a.n_kv_heads, kv_head = id.group.x / group;
  const KvPages kv = {a.pages, a.page_table, a.table_stride, a.n_kv_heads};
  task.head = (ulong)id.group.y * a.n_q_heads + id.group.x;
  task.kv_row = (ulong)id.group.y * a.n_kv_heads + kv_head;
  task.position = (uint)block.position + block.first;
  task.writes = id.group.x % group == 0;
  task.key = kv_page(kv, block.sequence, task.position / kKvPage, kv_head);
  task.key += task.position % kKvPage * 256;
}

// By one simdgroup; the same in all its lanes.
FN float attention_merge_own_score(CON AttentionFewParams& a, const THR AttentionMergeTask& task,
                                   const THR HeadTurn& turn, uint lane) {
  float q[8], k[8];
  attention_few_query(a, task.head, turn, lane, q);
  uint4 pairs;
  if (a.k == nullptr) {
    pairs = ((DEV const uint4*)task.key)[lane];
  } else {
    head_load(a.k + task.kv_row * 256, lane, k);
    head_norm(k, a.k_norm, a.eps, lane);
    head_rope(k, turn, lane);
    pairs = head_bf16(k);
    if (task.writes) ((DEV uint4*)task.key)[lane] = pairs;
  }
  widen_bf16(pairs, k);
  return lanes_sum(attention_few_dot(q, k));
}

// Dim `dim` of the row's own value.
FN float attention_merge_own_value(CON AttentionFewParams& a, const THR AttentionMergeTask& task,
                                   uint dim) {
  DEV ushort* value = task.key + kKvPage * 256 + dim;
  ushort bits;
  if (a.k == nullptr) {
    bits = *value;
  } else {
    bits = f_to_bf16(a.v[task.kv_row * 256 + dim]);
    if (task.writes) *value = bits;
  }
  return bf16_to_f(bits);
}

// Of all positions: sm.weights of the n parts, the weight of the row's own, and their sum.
struct AttentionMergeWeights {
  float own, total;
};
FN void attention_merge_weights(CON AttentionFewParams& a, TG AttentionMergeShared& sm,
                                const THR AttentionMergeTask& task, const THR HeadTurn& turn,
                                uint n, THR AttentionMergeWeights& weights, const THR Ids& id) {
  DEV const float2* sums = (DEV const float2*)a.sums + task.head * a.n_parts;
  float largest[2], total[2];
  UNROLL for (uint i = 0; i < 2; i++) {
    const uint part = id.tid + 256 * i;
    largest[i] = kAttentionLeast;
    total[i] = 0.0f;
    if (part < n) {
      const float2 sum = sums[part];
      largest[i] = sum.x;
      total[i] = sum.y;
    }
  }
  if (id.simd == 0) {
    const float own = attention_merge_own_score(a, task, turn, id.lane);
    if (id.lane == 0) sm.own = own;
  }
  group_barrier();
  const float most = group_max(m_max(m_max(largest[0], largest[1]), sm.own), sm.parts[0], id);
  UNROLL for (uint i = 0; i < 2; i++) {
    const float weight = m_exp(largest[i] - most);
    sm.weights[id.tid + 256 * i] = weight;
    total[i] *= weight;
  }
  weights.own = m_exp(sm.own - most);
  weights.total = group_sum(total[0] + total[1], sm.parts[1], id) + weights.own;
}

// sm.mix: every fourth part, four at a time so that their loads overlap. Ends with a barrier.
FN void attention_merge_mix(CON AttentionFewParams& a, TG AttentionMergeShared& sm,
                            const THR AttentionMergeTask& task, uint n, const THR Ids& id) {
  DEV const float* mixes = a.mixes + task.head * a.n_parts * 256 + id.tid % 64 * 4;
  float mix[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (uint first = id.tid / 64; first < n; first += 16) {
    UNROLL for (uint i = 0; i < 4; i++) {
      const uint part = u_min(first + 4 * i, n - 1);
      const float weight = first + 4 * i < n ? sm.weights[part] : 0.0f;
      float v[4];
      load_floats(mixes + part * 256, v);
      UNROLL for (uint d = 0; d < 4; d++) mix[d] = m_fma(weight, v[d], mix[d]);
    }
  }
  sm.mix[id.tid] = make_float4(mix[0], mix[1], mix[2], mix[3]);
  group_barrier();
}

// What is known before the parts are there: the row, its task, and its turn; block.n is 0 where
// there is no such row.
FN void attention_merge_start(CON AttentionFewParams& a, THR PassBlock& block,
                              THR AttentionMergeTask& task, THR HeadTurn& turn, const THR Ids& id) {
  pass_row(a.control, id.group.y, block);
  if (block.n > 0) {
    attention_merge_task(a, block, task, id);
    attention_few_turn(a, task.position, id.lane, turn);
  }
}
FN void attention_merge_finish(CON AttentionFewParams& a, TG AttentionMergeShared& sm,
                               const THR AttentionMergeTask& task, const THR HeadTurn& turn,
                               const THR Ids& id) {
  AttentionSplit split;
  attention_split(a, task.position, split);
  AttentionMergeWeights weights;
  attention_merge_weights(a, sm, task, turn, split.n_parts, weights, id);
  attention_merge_mix(a, sm, task, split.n_parts, id);
  TG const float* mixes = (TG const float*)sm.mix;
  float mix = weights.own * attention_merge_own_value(a, task, id.tid);
  UNROLL for (uint i = 0; i < 4; i++) mix += mixes[i * 256 + id.tid];
  const float gate = a.q_gate[(task.head * 2 + 1) * 256 + id.tid];
  a.y[task.head * 256 + id.tid] = mix / weights.total * m_sigmoid(gate);
}

KERNEL(attention_merge, AttentionFewParams, AttentionMergeShared, 256) {
  PassBlock block;
  AttentionMergeTask task;
  HeadTurn turn;
  attention_merge_start(a, block, task, turn, id);
  if (block.n > 0) attention_merge_finish(a, sm, task, turn, id);
}
