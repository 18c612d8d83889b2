// attention_few.cc for Hopper on its matrix units, for eight query heads a KV head: keys and values
// are read once for all eight. The parts and what each leaves are attention_few.cc's;
// attention_merge.cc follows.
// Grid: x parts, y Hkv, z rows; 128 threads. A warp takes 16 positions of a page with a running
// maximum of its own; the four are joined at the end.
// Scores [16 positions, 8 heads] = K q^T, mix [256 dims, 8 heads] = V^T weights: positions and dims
// are the matrix units' 16 rows, heads their 8 columns, so nothing is padded. Which of a lane's
// numbers is which dim is free to choose, the same for both operands: a lane reads 16 bytes of a
// key, and of a value, straight to registers; values are paired by position there.
// q and weights are rounded to bf16, sums fp32.
// Traffic: keys and values once a row and KV head; parts 1 KiB a head each.
#include "backend/gpu/kernels/attention_few_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/attention_few.h"

KERNEL_CONST uint kPartHeads = 8, kPartWarps = 4;

struct PartShared {
  uint2 q[16][32];  // Fragments, a k-step of 16 dims each.
  float largest[4][8], total[4][8];
  float mix[4][8][256];
};

FN void mma_bf16(float* c, const uint* a, uint b0, uint b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FN uint pair_bf16(float lo, float hi) {
  uint pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
}
FN uint transposed(uint pair) {
  uint to;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(pair));
  return to;
}

// Lane 4 g + t of a fragment holds dims 8 t .. 8 t + 7 of head g and of 32 dims: two k-steps.
FN void part_queries(const AttentionFewParams& a, PartShared& sm, ulong head, const HeadTurn& turn,
                     uint warp, uint lane) {
  for (uint h = warp; h < kPartHeads; h += kPartWarps) {
    float q[8];
    attention_few_query(a, head + h, turn, lane, q);
    const uint to = h * 4 + lane % 4, step = lane / 4 * 2;
    sm.q[step][to] = make_uint2(pair_bf16(q[0], q[1]), pair_bf16(q[2], q[3]));
    sm.q[step + 1][to] = make_uint2(pair_bf16(q[4], q[5]), pair_bf16(q[6], q[7]));
  }
}

// A warp's running state: maximum and sum of heads 2 t and 2 t + 1, mix [4 of 64 dims][4 tiles].
struct PartState {
  float largest[2], total[2];
  float mix[16][4];
};

// Scores of positions g and g + 8 with heads 2 t, 2 t + 1.
FN void part_scores(const PartShared& sm, const uint4* low, const uint4* high, uint lane,
                    float* scores) {
  const uint t = lane % 4;
  UNROLL for (uint i = 0; i < 4; i++) scores[i] = 0.0f;
  UNROLL for (uint half = 0; half < 2; half++) {
    uint4 x[4], y[4];
    UNROLL for (uint b = 0; b < 4; b++) {
      x[b] = low[(half * 4 + b) * 4 + t];
      y[b] = high[(half * 4 + b) * 4 + t];
    }
    UNROLL for (uint b = 0; b < 4; b++) {
      const uint step = (half * 4 + b) * 2;
      const uint2 q0 = sm.q[step][lane], q1 = sm.q[step + 1][lane];
      const uint a0[4] = {x[b].x, y[b].x, x[b].y, y[b].y}, a1[4] = {x[b].z, y[b].z, x[b].w, y[b].w};
      mma_bf16(scores, a0, q0.x, q0.y);
      mma_bf16(scores, a1, q1.x, q1.y);
    }
  }
}

// Scores become weights, in two fragments of 8 positions; what was summed shrinks.
FN void part_weights(PartState& state, float* scores, uint* weights) {
  UNROLL for (uint h = 0; h < 2; h++) {
    float most = fmaxf(scores[h], scores[2 + h]);
    UNROLL for (uint m = 4; m <= 16; m <<= 1) most = fmaxf(most, lanes_xor(most, m));
    most = fmaxf(most, state.largest[h]);
    const float shrink = m_exp(state.largest[h] - most);
    state.largest[h] = most;
    scores[h] = scores[h] > kAttentionLeast ? m_exp(scores[h] - most) : 0.0f;
    scores[2 + h] = scores[2 + h] > kAttentionLeast ? m_exp(scores[2 + h] - most) : 0.0f;
    state.total[h] = m_fma(state.total[h], shrink, scores[h] + scores[2 + h]);
    UNROLL for (uint i = 0; i < 16; i++) {
      state.mix[i][h] *= shrink;
      state.mix[i][2 + h] *= shrink;
    }
  }
  weights[0] = transposed(pair_bf16(scores[0], scores[1]));
  weights[1] = transposed(pair_bf16(scores[2], scores[3]));
}

// The values of positions 2 t, 2 t + 1, 8 + 2 t, 9 + 2 t.
struct PartValues {
  uint4 x[4][4];  // [dims of 64][position]
};
FN void part_load_values(const uint4* const* rows, uint lane, PartValues& v) {
  UNROLL for (uint c = 0; c < 4; c++) {
    UNROLL for (uint i = 0; i < 4; i++) v.x[c][i] = rows[i][c * 8 + lane / 4];
  }
}
FN void part_values(PartState& state, const PartValues& values, const uint* weights) {
  UNROLL for (uint c = 0; c < 4; c++) {
    uint v[4][4];
    UNROLL for (uint i = 0; i < 4; i++) {
      const uint4 x = values.x[c][i];
      v[i][0] = x.x, v[i][1] = x.y, v[i][2] = x.z, v[i][3] = x.w;
    }
    UNROLL for (uint j = 0; j < 4; j++) {
      const uint a[4] = {
          __byte_perm(v[0][j], v[1][j], 0x5410), __byte_perm(v[0][j], v[1][j], 0x7632),
          __byte_perm(v[2][j], v[3][j], 0x5410), __byte_perm(v[2][j], v[3][j], 0x7632)};
      mma_bf16(state.mix[c * 4 + j], a, weights[0], weights[1]);
    }
  }
}

FN void part_page(const PartShared& sm, PartState& state, const ushort* page, uint last, uint warp,
                  uint lane) {
  const uint first = warp * 16, g = lane / 4, t = lane % 4;
  if (first > last) return;  // The same for a warp.
  const uint4* keys = (const uint4*)page;
  const uint4* values = keys + kKvPage * 32;
  const uint4* rows[4];
  UNROLL for (uint i = 0; i < 4; i++) rows[i] =
      values + u_min(first + i / 2 * 8 + 2 * t + i % 2, last) * 32;
  PartValues loaded;  // Asked for together with the keys.
  part_load_values(rows, lane, loaded);
  float scores[4];
  part_scores(sm, keys + u_min(first + g, last) * 32, keys + u_min(first + g + 8, last) * 32, lane,
              scores);
  UNROLL for (uint i = 0; i < 4; i++) scores[i] =
      first + g + i / 2 * 8 <= last ? scores[i] : kAttentionLeast;
  uint weights[2];
  part_weights(state, scores, weights);
  part_values(state, loaded, weights);
}

// The warps' states, joined: the part's mix and sums.
FN void part_finish(const AttentionFewParams& a, PartShared& sm, const PartState& state, ulong head,
                    uint warp, uint lane) {
  const uint g = lane / 4, t = lane % 4;
  UNROLL for (uint h = 0; h < 2; h++) {
    float total = state.total[h];
    UNROLL for (uint m = 4; m <= 16; m <<= 1) total += lanes_xor(total, m);
    if (g == 0) {
      sm.largest[warp][2 * t + h] = state.largest[h];
      sm.total[warp][2 * t + h] = total;
    }
    UNROLL for (uint i = 0; i < 16; i++) {
      const uint dim = i / 4 * 64 + g * 8 + i % 4 * 2;
      *(float2*)&sm.mix[warp][2 * t + h][dim] = make_float2(state.mix[i][h], state.mix[i][2 + h]);
    }
  }
  group_barrier();
  for (uint h = warp; h < kPartHeads; h += kPartWarps) {
    float most = kAttentionLeast, total = 0.0f, shrink[kPartWarps];
    UNROLL for (uint w = 0; w < kPartWarps; w++) most = fmaxf(most, sm.largest[w][h]);
    UNROLL for (uint w = 0; w < kPartWarps; w++) {
      shrink[w] = m_exp(sm.largest[w][h] - most);
      total = m_fma(sm.total[w][h], shrink[w], total);
    }
    const ulong at = (head + h) * a.n_parts + blockIdx.x;
    UNROLL for (uint i = 0; i < 8; i++) {
      float mix = 0.0f;
      UNROLL for (uint w = 0; w < kPartWarps; w++) mix =
          m_fma(sm.mix[w][h][i * 32 + lane], shrink[w], mix);
      a.mixes[at * 256 + i * 32 + lane] = mix;
    }
    if (lane == 0) *(float2*)(a.sums + at * 2) = make_float2(most, total);
  }
}

CUDA_KERNEL(attention_parts, AttentionFewParams, 128, 2) {
  PartShared& sm = *(PartShared*)group_memory;
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32, kv_head = blockIdx.y;
  PassBlock block;
  pass_row(a.control, blockIdx.z, block);
  AttentionSplit split;
  attention_split(a, block.n > 0 ? (uint)block.position + block.first : 0, split);
  const bool here = blockIdx.x < split.n_parts;
  AttentionPart part;
  attention_part(a, split, blockIdx.x, part);
  const KvPages kv = {a.pages, a.page_table, a.table_stride, a.n_kv_heads};
  if (here) {  // Lines of the first page, 128 bytes a thread and turn.
    const char* page = (const char*)kv_page(kv, block.sequence, part.first, kv_head);
    UNROLL for (uint i = 0; i < 4; i++) {
      fetch_to_cache(page + (i * 128 + threadIdx.x) * 128);
    }
  }
  HeadTurn turn;
  attention_few_turn(a, split.n_positions, lane, turn);
  next_may_start();
  wait_for_inputs();
  if (!here) return;
  const ulong head = (ulong)blockIdx.z * a.n_q_heads + kv_head * kPartHeads;
  part_queries(a, sm, head, turn, warp, lane);
  group_barrier();
  PartState state;
  UNROLL for (uint h = 0; h < 2; h++) state.largest[h] = kAttentionLeast, state.total[h] = 0.0f;
  UNROLL for (uint i = 0; i < 64; i++) state.mix[i / 4][i % 4] = 0.0f;
  for (uint page = part.first; page < part.end; page += part.step) {
    const uint last = u_min(kKvPage, split.n_positions - page * kKvPage) - 1;
    part_page(sm, state, kv_page(kv, block.sequence, page, kv_head), last, warp, lane);
  }
  part_finish(a, sm, state, head, warp, lane);
}
