// attention for few rows: y = softmax(q K^T) V * sigmoid(gate), in two launches.
//
// attention_few_4, attention_few_8: one KV head of one row, for up to 4 or 8 of the query heads
//   that share it. The cache is cut into blocks of 64 positions (pages); block b belongs to part
//   b % 64, so a row's sums depend on its position alone, and up to 4,096 positions all of a
//   part's work is one block. A part goes over its blocks with a running maximum.
//   Grid: x parts, y Hkv * ceil(Hq / Hkv / heads), z rows; 256 threads. A group without a block
//   does nothing.
//   Scores: a simdgroup takes 8 keys, a lane 8 dims: 512-byte reads; the query stays in registers,
//   and the sums over lanes of all heads share one butterfly. Values: a thread has 2 dims of every
//   second position, 128-byte reads, asked for before the scores are known.
// attention_few_merge: parts are joined in order, divided, gated. Grid: x Hq, y rows; 256 threads.
//
// Traffic: keys and values once per row and group of heads; parts 1 KiB a head each.
// A head's bits are the same from both kernels: lanes add in the order of lanes_sum.
#include "backend/gpu/kernels/attention_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/floats.h"
#include "backend/gpu/kernels/kv_pages.h"
#include "backend/gpu/kernels/pass.h"

KERNEL_CONST uint kAttentionParts = 64;  // steps/attention.cc has it too.
KERNEL_CONST float kAttentionLeast = -3e38f;
KERNEL_CONST uint kAttentionLd = 68;  // Scores of a head: 64, and 4 of padding between banks.

template <uint kHeads>
struct AttentionFewShared {
  float4 weights[64 * kHeads / 4];  // [64, heads]
  float scores[kHeads * 68];
  float shrink[kHeads];  // By how much sums so far are multiplied.
  float2 mix[kHeads * 128];
};

// v [kHeads] of every lane summed over lanes; lane l gets the sum of head l / (32 / kHeads). The
// tree is lanes_sum's: a step halves the heads a lane keeps, and the other half goes to its
// partner.
template <uint kHeads>
FN float attention_few_sum(THR float* v, uint lane) {
  UNROLL for (uint step = 0; step < 5; step++) {
    const uint mask = 16u >> step, keep = kHeads >> (step + 1);
    const bool upper = (lane & mask) != 0;
    if (keep == 0) v[0] += lanes_xor(v[0], mask);
    UNROLL for (uint h = 0; h < keep; h++) {
      const float mine = upper ? v[h + keep] : v[h], other = upper ? v[h] : v[h + keep];
      v[h] = mine + lanes_xor(other, mask);
    }
  }
  return v[0];
}

// Scores of the simdgroup's 8 positions of a block, 4 at a time so that their loads overlap.
template <uint kHeads>
FN void attention_few_scores(TG AttentionFewShared<kHeads>& sm, const THR float* q,
                             DEV const ushort* keys, uint last, const THR Ids& id) {
  UNROLL for (uint i0 = 0; i0 < 8; i0 += 4) {
    const uint first = id.simd * 8 + i0;
    uint4 pairs[4];
    UNROLL for (uint i = 0; i < 4; i++) {
      pairs[i] = ((DEV const uint4*)keys)[u_min(first + i, last) * 32 + id.lane];
    }
    UNROLL for (uint i = 0; i < 4; i++) {
      float k[8], sums[kHeads];
      widen_bf16(pairs[i], k);
      UNROLL for (uint h = 0; h < kHeads; h++) {
        sums[h] = q[h * 8] * k[0];
        UNROLL for (uint d = 1; d < 8; d++) sums[h] = m_fma(q[h * 8 + d], k[d], sums[h]);
      }
      const float sum = attention_few_sum<kHeads>(sums, id.lane);
      const uint lanes_a_head = 32 / kHeads;
      if (id.lane % lanes_a_head == 0) {
        sm.scores[id.lane / lanes_a_head * kAttentionLd + first + i] = sum;
      }
    }
  }
}

// Running maximum and sum of one head, the same in all lanes of its simdgroup.
struct AttentionFewSum {
  float largest, total;
};

// Weights of a block for the head that is the simdgroup's: exp(score - largest so far).
template <uint kHeads>
FN void attention_few_weights(TG AttentionFewShared<kHeads>& sm, THR AttentionFewSum& sum,
                              uint last, const THR Ids& id) {
  TG const float* scores = sm.scores + id.simd * kAttentionLd;
  const uint first = id.lane, second = first + 32;
  const bool has0 = first <= last, has1 = second <= last;
  const float s0 = has0 ? scores[first] : kAttentionLeast;
  const float s1 = has1 ? scores[second] : kAttentionLeast;
  const float largest = m_max(sum.largest, lanes_max(m_max(s0, s1)));
  const float shrink = m_exp(sum.largest - largest);
  const float w0 = has0 ? m_exp(s0 - largest) : 0.0f, w1 = has1 ? m_exp(s1 - largest) : 0.0f;
  sum.total = m_fma(sum.total, shrink, lanes_sum(w0 + w1));
  sum.largest = largest;
  TG float* weights = (TG float*)sm.weights;
  weights[first * kHeads + id.simd] = w0;
  weights[second * kHeads + id.simd] = w1;
  if (id.lane == 0) sm.shrink[id.simd] = shrink;
}

// This thread's 2 dims of the positions of its side, added to mix [2 kHeads].
template <uint kHeads>
FN void attention_few_values(TG const AttentionFewShared<kHeads>& sm, const THR uint* values,
                             THR float* mix, uint side) {
  UNROLL for (uint h = 0; h < kHeads; h++) {
    mix[2 * h] *= sm.shrink[h];
    mix[2 * h + 1] *= sm.shrink[h];
  }
  UNROLL for (uint i = 0; i < 32; i++) {
    const float low = bf16_lo(values[i]), high = bf16_hi(values[i]);
    UNROLL for (uint h = 0; h < kHeads; h += 4) {
      const float4 w = sm.weights[((2 * i + side) * kHeads + h) / 4];
      mix[2 * h] = m_fma(w.x, low, mix[2 * h]);
      mix[2 * h + 1] = m_fma(w.x, high, mix[2 * h + 1]);
      mix[2 * h + 2] = m_fma(w.y, low, mix[2 * h + 2]);
      mix[2 * h + 3] = m_fma(w.y, high, mix[2 * h + 3]);
      mix[2 * h + 4] = m_fma(w.z, low, mix[2 * h + 4]);
      mix[2 * h + 5] = m_fma(w.z, high, mix[2 * h + 5]);
      mix[2 * h + 6] = m_fma(w.w, low, mix[2 * h + 6]);
      mix[2 * h + 7] = m_fma(w.w, high, mix[2 * h + 7]);
    }
  }
}

// Query heads first_head .. first_head + n - 1 of one row; the kernel's heads beyond n repeat the
// last.
struct AttentionFewTask {
  ulong head;  // row * Hq + first_head
  uint n;
};

template <uint kHeads>
FN void attention_few_finish(CON AttentionParams& a, TG AttentionFewShared<kHeads>& sm,
                             const THR AttentionFewTask& task, const THR float* mix,
                             const THR AttentionFewSum& sum, const THR Ids& id) {
  const uint part = id.group.x, pair = id.tid % 128;
  UNROLL for (uint h = 0; h < kHeads; h++) {
    if (id.tid >= 128) sm.mix[h * 128 + pair] = make_float2(mix[2 * h], mix[2 * h + 1]);
  }
  group_barrier();
  UNROLL for (uint h = 0; h < kHeads; h++) {
    if (id.tid < 128 && h < task.n) {
      const float2 other = sm.mix[h * 128 + pair];
      DEV float2* to = (DEV float2*)(a.mixes + ((task.head + h) * kAttentionParts + part) * 256);
      to[pair] = make_float2(mix[2 * h] + other.x, mix[2 * h + 1] + other.y);
    }
  }
  if (id.lane == 0 && id.simd < task.n) {
    DEV float* sums = a.sums + ((task.head + id.simd) * kAttentionParts + part) * 2;
    sums[0] = sum.largest;
    sums[1] = sum.total;
  }
}

template <uint kHeads>
FN void attention_few_part(CON AttentionParams& a, TG AttentionFewShared<kHeads>& sm,
                           const THR PassBlock& segment, uint n_positions, const THR Ids& id) {
  const uint group = a.n_q_heads / a.n_kv_heads, n_y = (group + kHeads - 1) / kHeads;
  const uint kv_head = id.group.y / n_y, skip = id.group.y % n_y * kHeads;
  const AttentionFewTask task = {(ulong)id.group.z * a.n_q_heads + kv_head * group + skip,
                                 u_min(kHeads, group - skip)};
  float q[kHeads * 8], mix[kHeads * 2];
  UNROLL for (uint h = 0; h < kHeads; h++) {
    DEV const float* from = a.q + (task.head + u_min(h, task.n - 1)) * 256 + id.lane * 8;
    load_floats(from, q + h * 8);
    load_floats(from + 4, q + h * 8 + 4);
    mix[2 * h] = mix[2 * h + 1] = 0.0f;
  }
  AttentionFewSum sum = {kAttentionLeast, 0.0f};
  const KvPages kv = {a.pages, a.page_table, a.table_stride, a.n_kv_heads};
  const uint pair = id.tid % 128, side = id.tid / 128;
  for (uint b = id.group.x; b * kKvPage < n_positions; b += kAttentionParts) {
    DEV const ushort* keys = kv_page(kv, segment.sequence, b, kv_head);
    DEV const uint* pairs = (DEV const uint*)(keys + kKvPage * 256);
    const uint last = u_min(kKvPage, n_positions - b * kKvPage) - 1;
    attention_few_scores<kHeads>(sm, q, keys, last, id);
    uint values[32];
    UNROLL for (uint i = 0; i < 32; i++) values[i] = pairs[u_min(2 * i + side, last) * 128 + pair];
    group_barrier();
    if (id.simd < kHeads) attention_few_weights<kHeads>(sm, sum, last, id);
    group_barrier();
    attention_few_values<kHeads>(sm, values, mix, side);
  }
  attention_few_finish<kHeads>(a, sm, task, mix, sum, id);
}

template <uint kHeads>
FN void attention_few(CON AttentionParams& a, TG AttentionFewShared<kHeads>& sm,
                      const THR Ids& id) {
  PassBlock block;
  pass_row(a.control, id.group.z, block);
  const uint n_positions = block.n > 0 ? (uint)block.position + block.first + 1 : 0;
  if (id.group.x * kKvPage < n_positions) {  // The same for all threads of the group.
    attention_few_part<kHeads>(a, sm, block, n_positions, id);
  }
}

KERNEL(attention_few_4, AttentionParams, AttentionFewShared<4>, 256) {
  attention_few<4>(a, sm, id);
}
KERNEL(attention_few_8, AttentionParams, AttentionFewShared<8>, 256) {
  attention_few<8>(a, sm, id);
}

struct AttentionFewMergeShared {
  float weights[64];
  float total;
};
KERNEL(attention_few_merge, AttentionParams, AttentionFewMergeShared, 256) {
  PassBlock block;
  pass_row(a.control, id.group.y, block);
  const uint n_positions = block.n > 0 ? (uint)block.position + block.first + 1 : 0;
  const uint n = u_min((n_positions + kKvPage - 1) / kKvPage, kAttentionParts);
  const ulong head = (ulong)id.group.y * a.n_q_heads + id.group.x;
  if (id.simd == 0) {
    DEV const float2* sums = (DEV const float2*)a.sums + head * kAttentionParts;
    float largest[2], total[2];
    UNROLL for (uint i = 0; i < 2; i++) {
      largest[i] = kAttentionLeast;
      total[i] = 0.0f;
      if (id.lane + 32 * i < n) {
        const float2 sum = sums[id.lane + 32 * i];
        largest[i] = sum.x;
        total[i] = sum.y;
      }
    }
    const float most = lanes_max(m_max(largest[0], largest[1]));
    UNROLL for (uint i = 0; i < 2; i++) {
      const float weight = m_exp(largest[i] - most);
      sm.weights[id.lane + 32 * i] = weight;
      total[i] *= weight;
    }
    const float all = lanes_sum(total[0] + total[1]);
    if (id.lane == 0) sm.total = all;
  }
  group_barrier();
  if (n > 0) {
    DEV const float* mixes = a.mixes + head * kAttentionParts * 256 + id.tid;
    float mix = 0.0f;
    for (uint i = 0; i < n; i++) mix = m_fma(sm.weights[i], mixes[i * 256], mix);
    const float gate = a.q_gate[(head * 2 + 1) * 256 + id.tid];
    a.y[head * 256 + id.tid] = mix / sm.total * m_sigmoid(gate);
  }
}
