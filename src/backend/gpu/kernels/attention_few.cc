// attention for few rows, the first of two kernels (attention_merge.cc): the context of a row, all
// positions before its own, in parts that groups take side by side.
//
// attention_few_4: one KV head of one row, for 4 of the query heads that share it, so that each key
//   and value is read once for four. attention_few_1: for one query head.
// Up to a context of block_from positions page p belongs to part p % 64; from there on the context
//   is cut into blocks of block_pages pages, a part each, so that work grows by more groups and not
//   by longer ones. Either way a row's sums depend on its position alone. A part goes over its
//   pages with a running maximum.
// Grid: x parts, y Hkv * ceil(Hq / Hkv / heads), z rows; 256 threads. A group without a page does
//   nothing.
// Scores: a simdgroup takes 8 keys, a lane 8 dims: 512-byte reads; the queries stay in registers,
//   and the sums over lanes of all heads share one butterfly. Values: a thread has 2 dims of every
//   second position, 128-byte reads, asked for before the scores are known.
// Traffic: keys and values once per row and group of heads; parts 1 KiB a head each.
// A head's bits are the same from both kernels: lanes add in the order of lanes_sum. `scattered`
//   changes which lane reads what, and no sum.
#include "backend/gpu/kernels/attention_few_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/attention_few.h"

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

// The lane's 16 bytes of four keys. Scattered: four lanes side by side read of four different keys.
FN void attention_few_keys(DEV const ushort* keys, uint first, uint last, uint scattered, uint lane,
                           THR uint4* pairs) {
  DEV const uint4* words = (DEV const uint4*)keys + lane;
  if (scattered == 0) {
    UNROLL for (uint i = 0; i < 4; i++) pairs[i] = words[u_min(first + i, last) * 32];
  } else {
    UNROLL for (uint i = 0; i < 4; i++) pairs[i] = make_uint4(0, 0, 0, 0);
    for (uint i = 0; i < 4; i++) {
      const uint row = (i + lane) % 4;
      const uint4 word = words[u_min(first + row, last) * 32];
      UNROLL for (uint j = 0; j < 4; j++) {
        const uint mask = row == j ? 0xffffffffu : 0u;
        pairs[j] = make_uint4(pairs[j].x | (word.x & mask), pairs[j].y | (word.y & mask),
                              pairs[j].z | (word.z & mask), pairs[j].w | (word.w & mask));
      }
    }
  }
}

// Scores of the simdgroup's 8 positions of a page, 4 at a time so that their loads overlap.
template <uint kHeads>
FN void attention_few_scores(TG AttentionFewShared<kHeads>& sm, const THR float* q,
                             DEV const ushort* keys, uint last, uint scattered, const THR Ids& id) {
  UNROLL for (uint i0 = 0; i0 < 8; i0 += 4) {
    const uint first = id.simd * 8 + i0;
    uint4 pairs[4];
    attention_few_keys(keys, first, last, scattered, id.lane, pairs);
    UNROLL for (uint i = 0; i < 4; i++) {
      float k[8], sums[kHeads];
      widen_bf16(pairs[i], k);
      UNROLL for (uint h = 0; h < kHeads; h++) sums[h] = attention_few_dot(q + h * 8, k);
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

// Weights of a page for the head that is the simdgroup's: exp(score - largest so far).
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

// Weights of one position for all heads.
template <uint kHeads>
FN void attention_few_read(TG const AttentionFewShared<kHeads>& sm, uint position, THR float* w) {
  if (kHeads == 1) {
    w[0] = ((TG const float*)sm.weights)[position];
  } else {
    UNROLL for (uint h = 0; h < kHeads; h += 4) {
      const float4 four = sm.weights[(position * kHeads + h) / 4];
      w[h] = four.x;
      w[h + 1] = four.y;
      w[h + 2] = four.z;
      w[h + 3] = four.w;
    }
  }
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
    float w[kHeads];
    attention_few_read<kHeads>(sm, 2 * i + side, w);
    UNROLL for (uint h = 0; h < kHeads; h++) {
      mix[2 * h] = m_fma(w[h], low, mix[2 * h]);
      mix[2 * h + 1] = m_fma(w[h], high, mix[2 * h + 1]);
    }
  }
}

// Query heads of one KV head of one row, from `head` (row * Hq + head) on; the kernel's heads
// beyond n repeat the last. pair, side: the thread's 2 dims, and which positions.
struct AttentionFewTask {
  ulong head;
  uint kv_head, n, pair, side;
};
template <uint kHeads>
FN void attention_few_task(CON AttentionFewParams& a, THR AttentionFewTask& task,
                           const THR Ids& id) {
  const uint group = a.n_q_heads / a.n_kv_heads, n_y = (group + kHeads - 1) / kHeads;
  const uint skip = id.group.y % n_y * kHeads, slot = id.tid % 128;
  task.kv_head = id.group.y / n_y;
  task.head = (ulong)id.group.z * a.n_q_heads + task.kv_head * group + skip;
  task.n = u_min(kHeads, group - skip);
  task.pair = a.scattered == 0 ? slot : slot % 32 * 4 + slot / 32;
  task.side = id.tid / 128;
}

template <uint kHeads>
FN void attention_few_finish(CON AttentionFewParams& a, TG AttentionFewShared<kHeads>& sm,
                             const THR AttentionFewTask& task, const THR float* mix,
                             const THR AttentionFewSum& sum, const THR Ids& id) {
  const uint part = id.group.x;
  UNROLL for (uint h = 0; h < kHeads; h++) {
    if (task.side == 1) sm.mix[h * 128 + task.pair] = make_float2(mix[2 * h], mix[2 * h + 1]);
  }
  group_barrier();
  UNROLL for (uint h = 0; h < kHeads; h++) {
    if (task.side == 0 && h < task.n) {
      const float2 other = sm.mix[h * 128 + task.pair];
      DEV float2* to = (DEV float2*)(a.mixes + ((task.head + h) * a.n_parts + part) * 256);
      to[task.pair] = make_float2(mix[2 * h] + other.x, mix[2 * h + 1] + other.y);
    }
  }
  if (id.lane == 0 && id.simd < task.n) {
    DEV float* sums = a.sums + ((task.head + id.simd) * a.n_parts + part) * 2;
    sums[0] = sum.largest;
    sums[1] = sum.total;
  }
}

template <uint kHeads>
FN void attention_few_part(CON AttentionFewParams& a, TG AttentionFewShared<kHeads>& sm,
                           const THR PassBlock& segment, const THR AttentionSplit& split,
                           const THR Ids& id) {
  AttentionFewTask task;
  attention_few_task<kHeads>(a, task, id);
  AttentionPart part;
  attention_part(a, split, id.group.x, part);
  HeadTurn turn;
  attention_few_turn(a, split.n_positions, id.lane, turn);
  float q[kHeads * 8], mix[kHeads * 2];
  UNROLL for (uint h = 0; h < kHeads; h++) {
    attention_few_query(a, task.head + u_min(h, task.n - 1), turn, id.lane, q + h * 8);
    mix[2 * h] = mix[2 * h + 1] = 0.0f;
  }
  AttentionFewSum sum = {kAttentionLeast, 0.0f};
  const KvPages kv = {a.pages, a.page_table, a.table_stride, a.n_kv_heads};
  for (uint page = part.first; page < part.end; page += part.step) {
    DEV const ushort* keys = kv_page(kv, segment.sequence, page, task.kv_head);
    DEV const uint* pairs = (DEV const uint*)(keys + kKvPage * 256) + task.pair;
    const uint last = u_min(kKvPage, split.n_positions - page * kKvPage) - 1;
    attention_few_scores<kHeads>(sm, q, keys, last, a.scattered, id);
    uint values[32];
    UNROLL for (uint i = 0; i < 32; i++) values[i] = pairs[u_min(2 * i + task.side, last) * 128];
    group_barrier();
    if (id.simd < kHeads) attention_few_weights<kHeads>(sm, sum, last, id);
    group_barrier();
    attention_few_values<kHeads>(sm, values, mix, task.side);
  }
  attention_few_finish<kHeads>(a, sm, task, mix, sum, id);
}

template <uint kHeads>
FN void attention_few(CON AttentionFewParams& a, TG AttentionFewShared<kHeads>& sm,
                      const THR Ids& id) {
  PassBlock block;
  pass_row(a.control, id.group.z, block);
  AttentionSplit split;
  attention_split(a, block.n > 0 ? (uint)block.position + block.first : 0, split);
  if (id.group.x < split.n_parts) {  // The same for all threads of the group.
    attention_few_part<kHeads>(a, sm, block, split, id);
  }
}

KERNEL(attention_few_1, AttentionFewParams, AttentionFewShared<1>, 256) {
  attention_few<1>(a, sm, id);
}
KERNEL(attention_few_4, AttentionFewParams, AttentionFewShared<4>, 256) {
  attention_few<4>(a, sm, id);
}
