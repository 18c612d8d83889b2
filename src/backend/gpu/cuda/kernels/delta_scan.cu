// gdn_scan_many for Hopper: the delta rule of many rows in fp32, with one exchange between lanes for
// two tokens where gdn_scan.cc has four: k S and q S of both are summed together, since q S' = decay
// q S + (q k) d; products of q and k are worked out beforehand, 16 tokens at a time.
// Grid: x four groups a value head, which take the segments in turn, one group a multiprocessor:
// two on one took half as long again, while others had none. 256 threads. A warp has 4 columns of
// S, lane = 2 part + pair: keys 4 part + 64 m + e of a pair of columns. Four sums over 16 parts
// share one butterfly. gdn_norm.cc follows. Shared memory: two stages of 16 tokens, one in use
// while the other arrives. Traffic: as gdn_scan_many. Bound by fp32: 4 operations an element of S
// and token. A layer of 2,048 tokens of the 35B on an H200: gdn_scan_many 920 us; lanes of one
// column and 16 keys, which read four times as much shared memory, 777 us.
#include "backend/gpu/kernels/gdn_scan_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/pass.h"

KERNEL_CONST uint kScanTokens = 16;

struct ScanStage {
  float4 q[16][32], k[16][32];
  float v[16][32];
  float4 gates[16];  // decay, beta, q k
  float2 cross[8];   // Of two tokens: k and q of the second with k of the first
};
struct ScanShared {
  ScanStage stages[2];
  float o[16][32];
};

// What a group works on.
struct ScanTask {
  uint head, key_head, first_column;
};

// Tokens row .. row + n - 1 on their way to shared memory.
FN void scan_fetch(const GdnScanParams& a, ScanStage& to, const ScanTask& task, uint row, uint n) {
  const uint tid = threadIdx.x;
  for (uint i = tid; i < n * 32; i += 256) {
    const ulong at = (((ulong)row + i / 32) * a.n_key_heads + task.key_head) * 128 + i % 32 * 4;
    copy16(&to.q[i / 32][i % 32], a.q + at);
    copy16(&to.k[i / 32][i % 32], a.k + at);
  }
  if (tid < n * 8) {
    copy16(&to.v[tid / 8][tid % 8 * 4],
           a.v + (((ulong)row + tid / 8) * a.n_value_heads + task.head) * 128 + task.first_column +
               tid % 8 * 4);
  }
  if (tid < n) {
    const ulong at = ((ulong)row + tid) * a.n_value_heads + task.head;
    to.gates[tid].x = a.decay[at];
    to.gates[tid].y = a.beta[at];
  }
}

FN float scan_product(float4 a, float4 b) {
  return lanes_sum(m_fma(a.x, b.x, m_fma(a.y, b.y, m_fma(a.z, b.z, a.w * b.w))));
}
// A warp takes two tokens; behind the last one it multiplies anything.
FN void scan_products(ScanStage& stage, uint n) {
  const uint lane = threadIdx.x % 32, t = threadIdx.x / 32 * 2;
  if (t >= n) return;
  const float4 q = stage.q[t][lane], k = stage.k[t][lane], next_q = stage.q[t + 1][lane],
               next_k = stage.k[t + 1][lane];
  const float own = scan_product(q, k), next = scan_product(next_q, next_k),
              keys = scan_product(next_k, k), query = scan_product(next_q, k);
  if (lane == 0) {
    stage.gates[t].z = own;
    stage.gates[t + 1].z = next;
    stage.cross[t / 2] = make_float2(keys, query);
  }
}

// This lane's 8 keys of its two columns.
FN float* scan_address(const GdnScanParams& a, const ScanTask& task, int slot, uint i) {
  const uint lane = threadIdx.x % 32,
             column = task.first_column + threadIdx.x / 32 * 4 + lane % 2 * 2;
  const uint key = lane / 2 * 4 + i / 4 * 64 + i % 4;
  return a.states + (ulong)(uint)slot * a.slot_floats + (task.head * 128 + key) * 128 + column;
}
FN void scan_load(const GdnScanParams& a, const ScanTask& task, int slot, float2* s) {
  UNROLL for (uint i = 0; i < 8; i++) {
    s[i] = slot < 0 ? make_float2(0.0f, 0.0f) : *(const float2*)scan_address(a, task, slot, i);
  }
}
FN void scan_store(const GdnScanParams& a, const ScanTask& task, int slot, const float2* s) {
  UNROLL for (uint i = 0; i < 8; i++) * (float2*)scan_address(a, task, slot, i) = s[i];
}

// A token as this lane sees it: q and k of its keys, v of the column whose sum it will hold.
struct ScanToken {
  float q[8], k[8], v;
  float4 gates;
};
FN void scan_token(const ScanStage& stage, uint t, ScanToken& x) {
  const uint lane = threadIdx.x % 32;
  UNROLL for (uint m = 0; m < 2; m++) {
    const float4 q = stage.q[t][m * 16 + lane / 2], k = stage.k[t][m * 16 + lane / 2];
    x.q[4 * m] = q.x, x.q[4 * m + 1] = q.y, x.q[4 * m + 2] = q.z, x.q[4 * m + 3] = q.w;
    x.k[4 * m] = k.x, x.k[4 * m + 1] = k.y, x.k[4 * m + 2] = k.z, x.k[4 * m + 3] = k.w;
  }
  x.v = stage.v[t][threadIdx.x / 32 * 4 + lane % 2 * 2 + (lane >> 3 & 1u)];
  x.gates = stage.gates[t];
}

// Sums over the 16 parts: lanes below 16 get k's, the others q's; of the pair's second column those
// with 8 in their number.
FN float scan_sum(float2 ks, float2 qs, uint lane) {
  const bool q = (lane & 16u) != 0, second = (lane & 8u) != 0;
  const float x = (q ? qs.x : ks.x) + lanes_xor(q ? ks.x : qs.x, 16);
  const float y = (q ? qs.y : ks.y) + lanes_xor(q ? ks.y : qs.y, 16);
  float sum = (second ? y : x) + lanes_xor(second ? x : y, 8);
  sum += lanes_xor(sum, 4);
  return sum + lanes_xor(sum, 2);
}

// Returns o, in lanes from 16 on, of the column as in scan_sum.
FN float scan_step(float2* s, const ScanToken& x, uint lane) {
  float2 ks[2], qs[2];
  UNROLL for (uint m = 0; m < 2; m++) {
    ks[m] = qs[m] = make_float2(0.0f, 0.0f);
    UNROLL for (uint e = 0; e < 4; e++) {
      const float2 old = s[4 * m + e];
      ks[m] =
          make_float2(m_fma(x.k[4 * m + e], old.x, ks[m].x), m_fma(x.k[4 * m + e], old.y, ks[m].y));
      qs[m] =
          make_float2(m_fma(x.q[4 * m + e], old.x, qs[m].x), m_fma(x.q[4 * m + e], old.y, qs[m].y));
    }
  }
  const float sum = scan_sum(make_float2(ks[0].x + ks[1].x, ks[0].y + ks[1].y),
                             make_float2(qs[0].x + qs[1].x, qs[0].y + qs[1].y), lane);
  const float decay = x.gates.x;
  const float mine = x.gates.y * m_fma(-decay, sum, x.v);
  const float2 d = make_float2(lanes_read(mine, lane & 1u), lanes_read(mine, (lane & 1u) + 8));
  UNROLL for (uint i = 0; i < 8; i++) {
    s[i] = make_float2(m_fma(x.k[i], d.x, decay * s[i].x), m_fma(x.k[i], d.y, decay * s[i].y));
  }
  return m_fma(x.gates.z, (lane & 8u) != 0 ? d.y : d.x, decay * sum);
}

// Two tokens at once: both see the state before the first, and what that adds to it for the second
// is known from their products. One exchange then serves two tokens.
struct ScanPair {
  float q[2][8], k[2][8];
  float2 v[2], cross;
  float4 gates[2];
};
FN void scan_pair(const ScanStage& stage, uint t, ScanPair& x) {
  const uint lane = threadIdx.x % 32;
  UNROLL for (uint i = 0; i < 2; i++) {
    UNROLL for (uint m = 0; m < 2; m++) {
      const float4 q = stage.q[t + i][m * 16 + lane / 2], k = stage.k[t + i][m * 16 + lane / 2];
      x.q[i][4 * m] = q.x, x.q[i][4 * m + 1] = q.y, x.q[i][4 * m + 2] = q.z,
                x.q[i][4 * m + 3] = q.w;
      x.k[i][4 * m] = k.x, x.k[i][4 * m + 1] = k.y, x.k[i][4 * m + 2] = k.z,
                x.k[i][4 * m + 3] = k.w;
    }
    x.v[i] = *(const float2*)&stage.v[t + i][threadIdx.x / 32 * 4 + lane % 2 * 2];
    x.gates[i] = stage.gates[t + i];
  }
  x.cross = stage.cross[t / 2];
}
FN float2 scan_dot(const float* x, const float2* s) {
  float2 sum[2];
  UNROLL for (uint m = 0; m < 2; m++) {
    sum[m] = make_float2(0.0f, 0.0f);
    UNROLL for (uint e = 0; e < 4; e++) {
      sum[m].x = m_fma(x[4 * m + e], s[4 * m + e].x, sum[m].x);
      sum[m].y = m_fma(x[4 * m + e], s[4 * m + e].y, sum[m].y);
    }
  }
  return make_float2(sum[0].x + sum[1].x, sum[0].y + sum[1].y);
}
// Of two numbers the one that the lane keeps, and its partner's of the same; the other goes there.
FN float scan_fold(bool second, float a, float b, uint m) {
  return (second ? b : a) + lanes_xor(second ? a : b, m);
}
// Returns o of the lane's column and token: the second column where 8 is in its number, the second
// token where 4 is; in lanes from 16 on.
FN float scan_two(float2* s, const ScanPair& x, uint lane) {
  const bool queries = (lane & 16u) != 0, y = (lane & 8u) != 0, second = (lane & 4u) != 0;
  const float2 k0 = scan_dot(x.k[0], s), k1 = scan_dot(x.k[1], s), q0 = scan_dot(x.q[0], s),
               q1 = scan_dot(x.q[1], s);
  const float x0 = scan_fold(queries, k0.x, q0.x, 16), y0 = scan_fold(queries, k0.y, q0.y, 16),
              x1 = scan_fold(queries, k1.x, q1.x, 16), y1 = scan_fold(queries, k1.y, q1.y, 16);
  const float of0 = scan_fold(y, x0, y0, 8), of1 = scan_fold(y, x1, y1, 8);
  float sum = scan_fold(second, of0, of1, 4);
  sum += lanes_xor(sum, 2);
  const uint pair = lane & 1u;
  const float2 ks0 = make_float2(lanes_read(sum, pair), lanes_read(sum, pair + 8)),
               ks1 = make_float2(lanes_read(sum, pair + 4), lanes_read(sum, pair + 12));
  const float decay0 = x.gates[0].x, decay1 = x.gates[1].x, beta0 = x.gates[0].y,
              beta1 = x.gates[1].y;
  const float2 d0 = make_float2(beta0 * m_fma(-decay0, ks0.x, x.v[0].x),
                                beta0 * m_fma(-decay0, ks0.y, x.v[0].y));
  const float2 after = make_float2(m_fma(x.cross.x, d0.x, decay0 * ks1.x),
                                   m_fma(x.cross.x, d0.y, decay0 * ks1.y));
  const float2 d1 = make_float2(beta1 * m_fma(-decay1, after.x, x.v[1].x),
                                beta1 * m_fma(-decay1, after.y, x.v[1].y));
  const float2 first = make_float2(decay1 * d0.x, decay1 * d0.y);
  const float both = decay0 * decay1;
  UNROLL for (uint i = 0; i < 8; i++) {
    s[i] = make_float2(m_fma(x.k[1][i], d1.x, m_fma(x.k[0][i], first.x, both * s[i].x)),
                       m_fma(x.k[1][i], d1.y, m_fma(x.k[0][i], first.y, both * s[i].y)));
  }
  const float own0 = y ? d0.y : d0.x, own1 = y ? d1.y : d1.x;
  if (!second) return m_fma(x.gates[0].z, own0, decay0 * sum);
  return m_fma(x.gates[1].z, own1, decay1 * m_fma(x.cross.y, own0, decay0 * sum));
}

// The stage's tokens one by one; row: the first's in the segment.
FN void scan_singles(const GdnScanParams& a, ScanShared& sm, const ScanStage& stage,
                     const ScanTask& task, const PassBlock& segment, uint row, uint first, uint n,
                     float2* s) {
  const uint lane = threadIdx.x % 32,
             column = threadIdx.x / 32 * 4 + lane % 2 * 2 + (lane >> 3 & 1u);
  for (uint t = first; t < n; t++) {
    ScanToken x;
    scan_token(stage, t, x);
    const float o = scan_step(s, x, lane);
    if ((lane & 22u) == 16u) sm.o[t][column] = o;
    if (segment.snapshots >= 0) scan_store(a, task, segment.snapshots + (int)(row + t), s);
  }
}
// By twos, where nobody asks for the state between them.
FN void scan_stage(const GdnScanParams& a, ScanShared& sm, const ScanStage& stage,
                   const ScanTask& task, const PassBlock& segment, uint row, uint n, float2* s) {
  const uint lane = threadIdx.x % 32,
             column = threadIdx.x / 32 * 4 + lane % 2 * 2 + (lane >> 3 & 1u);
  const uint paired = segment.snapshots >= 0 ? 0 : n & ~1u;
  if (paired > 0) {
    ScanPair now, next;
    scan_pair(stage, 0, now);
#pragma unroll 2
    for (uint t = 0; t < paired; t += 2) {
      scan_pair(stage, u_min(t + 2, paired - 2), next);
      const float o = scan_two(s, now, lane);
      if ((lane & 18u) == 16u) sm.o[t + (lane >> 2 & 1u)][column] = o;
      now = next;
    }
  }
  scan_singles(a, sm, stage, task, segment, row, paired, n, s);
}

// A segment's tokens, from its state to its state.
FN void scan_segment(const GdnScanParams& a, ScanShared& sm, const ScanTask& task,
                     const PassBlock& segment) {
  const uint tid = threadIdx.x;
  float2 s[8];
  scan_load(a, task, segment.state_in, s);
  const uint first_row = (uint)segment.first_row;
  scan_fetch(a, sm.stages[0], task, first_row, u_min(segment.n, kScanTokens));
  copies_commit();
  for (uint first = 0; first < segment.n; first += kScanTokens) {
    const uint n = u_min(segment.n - first, kScanTokens), after = first + kScanTokens;
    ScanStage& stage = sm.stages[first / kScanTokens % 2];
    copies_wait();
    group_barrier();
    if (after < segment.n) {
      scan_fetch(a, sm.stages[after / kScanTokens % 2], task, first_row + after,
                 u_min(segment.n - after, kScanTokens));
      copies_commit();
    }
    scan_products(stage, n);
    group_barrier();
    scan_stage(a, sm, stage, task, segment, first, n, s);
    group_barrier();
    if (tid < n * 8) {
      const ulong at = (((ulong)first_row + first + tid / 8) * a.n_value_heads + task.head) * 128 +
                       task.first_column;
      *(float4*)(a.y + at + tid % 8 * 4) = ((const float4*)sm.o[tid / 8])[tid % 8];
    }
  }
  scan_store(a, task, segment.state_out, s);
}

CUDA_KERNEL(delta_scan, GdnScanParams, 256, 1) {
  __shared__ __align__(16) ScanShared sm;
  const uint head = blockIdx.x / 4;
  const ScanTask task = {head, head / (a.n_value_heads / a.n_key_heads), blockIdx.x % 4 * 32};
  const uint n_segments = pass_segments(a.control);
  for (uint i = 0; i < n_segments; i++) {
    PassBlock segment;
    pass_segment(a.control, i, segment);
    if (segment.n > 0) scan_segment(a, sm, task, segment);
    group_barrier();
  }
}
