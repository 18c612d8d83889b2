// gdn_prepare.cc and gdn_scan_few in one launch for Hopper, for models with two value heads a key
// head: convolution, norms, gates, delta rule and gated norm of few rows.
// Grid: x Hk clusters of 8 groups, y segments; 256 threads. A group has 32 columns of one value
// head's state, 16 KiB, in registers: warp w the keys 16 w .. 16 w + 15, lane l the columns 4 (l %
// 8) .. + 3 of keys l / 8, + 4, ...: 128-byte reads, asked for before the projection has ended. One
// exchange a row within the group: k S and q S are summed together, since q S' = decay q S + (q k)
// d. One between the groups of a head: the squares of o. The barrier of the cluster is also what
// lets one group write the windows of q and k, which all eight have read. Traffic: S in and out,
// 128 KiB a head and segment; q, k of the projection four times, from cache.
#include "backend/gpu/cuda/kernels/delta_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/floats.h"
#include "backend/gpu/kernels/pass.h"

KERNEL_CONST uint kDeltaColumns = 32;

// One channel of the convolution: taps and the three rows before.
struct DeltaChannel {
  float taps[4], x[3];
  uint index;
};

struct DeltaShared {
  float qk[256], v[32];   // q, then k, before their norms
  float squares[8];       // Of q (four warps) and k.
  float4 sums[8][2][8];   // [warp][k S, q S][columns]
  float products[8];      // q k
  float o_squares[2][4];  // Of the four groups of the head; rows take turns, so that a fast group
                          // may be one ahead.
};

// What a group works on.
struct DeltaTask {
  uint key_head, head, quarter;
  bool writes_keys;  // This group writes the windows of q and k.
};

FN void load_channel(const GdnPrepareParams& a, uint index, int slot, DeltaChannel& c) {
  c.index = index;
  load_floats(a.conv_weight + (ulong)index * 4, c.taps);
  const uint n = (2 * a.n_key_heads + a.n_value_heads) * 128;
  const float* from = a.windows + (ulong)(uint)slot * a.slot_floats + index;
  UNROLL for (uint j = 0; j < 3; j++) c.x[j] = slot < 0 ? 0.0f : from[j * n];
}
FN void store_channel(const GdnPrepareParams& a, int slot, const DeltaChannel& c) {
  const uint n = (2 * a.n_key_heads + a.n_value_heads) * 128;
  float* to = a.windows + (ulong)(uint)slot * a.slot_floats + c.index;
  UNROLL for (uint j = 0; j < 3; j++) to[j * n] = c.x[j];
}
// The row's number through the convolution; the window moves on.
FN float step_channel(DeltaChannel& c, float x) {
  float sum = c.taps[0] * c.x[0];
  sum = m_fma(c.taps[1], c.x[1], sum);
  sum = m_fma(c.taps[2], c.x[2], sum);
  const float y = m_silu(m_fma(c.taps[3], x, sum));
  c.x[0] = c.x[1], c.x[1] = c.x[2], c.x[2] = x;
  return y;
}

// The thread's 16 numbers of S: keys 16 warp + lane / 8 + 4 i, four columns.
struct DeltaState {
  float4 s[4];
};
FN float* delta_address(const GdnScanParams& a, const DeltaTask& task, int slot) {
  const uint key = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 8;
  return a.states + (ulong)(uint)slot * a.slot_floats + (task.head * 128 + key) * 128 +
         task.quarter * kDeltaColumns + threadIdx.x % 8 * 4;
}
FN void load_state(const GdnScanParams& a, const DeltaTask& task, int slot, DeltaState& state) {
  UNROLL for (uint i = 0; i < 4; i++) {
    state.s[i] = slot < 0 ? make_float4(0.0f, 0.0f, 0.0f, 0.0f)
                          : __ldcs((const float4*)(delta_address(a, task, slot) + i * 512));
  }
}
FN void store_state(const GdnScanParams& a, const DeltaTask& task, int slot,
                    const DeltaState& state) {
  UNROLL for (uint i = 0; i < 4; i++)
      __stcs((float4*)(delta_address(a, task, slot) + i * 512), state.s[i]);
}

FN float4 add4(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
FN float4 fma4(float a, float4 b, float4 c) {
  return make_float4(m_fma(a, b.x, c.x), m_fma(a, b.y, c.y), m_fma(a, b.z, c.z),
                     m_fma(a, b.w, c.w));
}
FN float4 over_keys(float4 v) {  // Over the four keys side by side in a warp.
  UNROLL for (uint m = 8; m <= 16; m <<= 1) {
    v = add4(
        v, make_float4(lanes_xor(v.x, m), lanes_xor(v.y, m), lanes_xor(v.z, m), lanes_xor(v.w, m)));
  }
  return v;
}

// Convolution of the group's channels of a row; q, k and v in sm. Ends with a barrier.
FN void delta_row(const DeltaStepParams& p, DeltaShared& sm, ulong row, DeltaChannel& mine,
                  DeltaChannel& value, const DeltaTask& task) {
  const GdnPrepareParams& a = p.prepare;
  const uint tid = threadIdx.x, n = (2 * a.n_key_heads + a.n_value_heads) * 128;
  const float* from = a.qkv + row * n;
  const float x = load_fresh(from + mine.index),
              xv = tid < kDeltaColumns ? load_fresh(from + value.index) : 0.0f;
  const float y = step_channel(mine, x);
  sm.qk[tid] = y;
  const float squares = lanes_sum(y * y);
  if (tid % 32 == 0) sm.squares[tid / 32] = squares;
  if (tid < kDeltaColumns) sm.v[tid] = step_channel(value, xv);
  group_barrier();
}

// One row of the delta rule: the thread's four columns of o, the same in all warps and keys.
FN float4 delta_rule(const DeltaStepParams& p, DeltaShared& sm, ulong row, const DeltaTask& task,
                     DeltaState& state) {
  const GdnPrepareParams& a = p.prepare;
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = a.n_value_heads;
  const float* s = sm.squares;
  const float fq = m_rsqrt((s[0] + s[1] + s[2] + s[3]) / 128.0f + a.eps) * 0x1p-7f;
  const float fk = m_rsqrt((s[4] + s[5] + s[6] + s[7]) / 128.0f + a.eps) * 0x1.6a09e6p-4f;
  const float beta = m_sigmoid(load_fresh(a.b + row * n + task.head));
  const float decay =
      m_exp(-m_exp(a.a_log[task.head]) *
            m_softplus(load_fresh(a.a + row * n + task.head) + a.dt_bias[task.head]));
  float4 ks = make_float4(0.0f, 0.0f, 0.0f, 0.0f), qs = ks;
  float key[4], qk = 0.0f;
  UNROLL for (uint i = 0; i < 4; i++) {
    const uint at = warp * 16 + lane / 8 + 4 * i;
    key[i] = sm.qk[128 + at] * fk;
    const float query = sm.qk[at] * fq;
    ks = fma4(key[i], state.s[i], ks);
    qs = fma4(query, state.s[i], qs);
    qk = m_fma(query, key[i], qk);
  }
  ks = over_keys(ks);
  qs = over_keys(qs);
  qk += lanes_xor(qk, 8);
  qk += lanes_xor(qk, 16);
  if (lane < 8) {
    sm.sums[warp][0][lane] = ks;
    sm.sums[warp][1][lane] = qs;
    if (lane == 0) sm.products[warp] = qk;
  }
  group_barrier();
  ks = qs = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  qk = 0.0f;
  UNROLL for (uint w = 0; w < 8; w++) {
    ks = add4(ks, sm.sums[w][0][lane % 8]);
    qs = add4(qs, sm.sums[w][1][lane % 8]);
    qk += sm.products[w];
  }
  const float4 v = ((const float4*)sm.v)[lane % 8];
  const float4 d = make_float4(beta * m_fma(-decay, ks.x, v.x), beta * m_fma(-decay, ks.y, v.y),
                               beta * m_fma(-decay, ks.z, v.z), beta * m_fma(-decay, ks.w, v.w));
  UNROLL for (uint i = 0; i < 4; i++) {
    const float4 old = state.s[i];
    state.s[i] =
        fma4(key[i], d, make_float4(decay * old.x, decay * old.y, decay * old.z, decay * old.w));
  }
  return fma4(qk, d, make_float4(decay * qs.x, decay * qs.y, decay * qs.z, decay * qs.w));
}

// The gated norm of the row over the head; its four groups meet.
FN void delta_finish(const DeltaStepParams& p, DeltaShared& sm, ulong row, const DeltaTask& task,
                     float4 o, uint turn) {
  const GdnScanParams& a = p.scan;
  const uint tid = threadIdx.x;
  const ulong at =
      (row * a.n_value_heads + task.head) * 128 + task.quarter * kDeltaColumns + tid * 4;
  float4 z = make_float4(0.0f, 0.0f, 0.0f, 0.0f), norm = z;
  if (tid < 8) {
    z = load_fresh4(a.z + at);
    norm = *(const float4*)(a.norm + task.quarter * kDeltaColumns + tid * 4);
  }
  if (tid < 32) {
    float squares = (o.x * o.x + o.y * o.y) + (o.z * o.z + o.w * o.w);
    UNROLL for (uint m = 4; m > 0; m >>= 1) squares += lanes_xor(squares, m);
    if (tid < 4)
      cluster_store(&sm.o_squares[turn][task.quarter], (cluster_rank() & 4u) + tid, squares);
  }
  cluster_barrier();
  if (tid < 8) {
    const float* parts = sm.o_squares[turn];
    const float sum = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    const float inverse = m_rsqrt(sum / 128.0f + a.eps);
    const bool sigmoid = a.z_sigmoid != 0;
    float4 y;
    y.x = o.x * inverse * norm.x * (sigmoid ? m_sigmoid(z.x) : m_silu(z.x));
    y.y = o.y * inverse * norm.y * (sigmoid ? m_sigmoid(z.y) : m_silu(z.y));
    y.z = o.z * inverse * norm.z * (sigmoid ? m_sigmoid(z.z) : m_silu(z.z));
    y.w = o.w * inverse * norm.w * (sigmoid ? m_sigmoid(z.w) : m_silu(z.w));
    *(float4*)(a.y + at) = y;
  }
}

FN void store_windows(const GdnPrepareParams& a, int slot, const DeltaTask& task,
                      const DeltaChannel& mine, const DeltaChannel& value) {
  if (task.writes_keys) store_channel(a, slot, mine);
  if (threadIdx.x < kDeltaColumns) store_channel(a, slot, value);
}

extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(256, 2)
    delta_step(const __grid_constant__ DeltaStepParams p) {
  __shared__ DeltaShared sm;
  const GdnPrepareParams& a = p.prepare;
  const uint rank = cluster_rank(), tid = threadIdx.x;
  const DeltaTask task = {blockIdx.x / 8, blockIdx.x / 8 * 2 + rank / 4, rank % 4, rank == 0};
  cluster_arrive();
  if (p.fetch_early == 0) wait_for_inputs();
  PassBlock segment;
  pass_segment(a.control, blockIdx.y, segment);
  DeltaChannel mine, value;
  DeltaState state;
  load_state(p.scan, task, segment.state_in, state);
  load_channel(a, (tid < 128 ? 0 : (a.n_key_heads - 1) * 128) + task.key_head * 128 + tid,
               segment.state_in, mine);
  load_channel(
      a, (2 * a.n_key_heads + task.head) * 128 + task.quarter * kDeltaColumns + tid % kDeltaColumns,
      segment.state_in, value);
  next_may_start();
  if (p.fetch_early != 0) wait_for_inputs();
  cluster_wait();  // All eight run: their memory may be written.
  for (uint t = 0; t < segment.n; t++) {
    const ulong row = (ulong)((uint)segment.first_row + t);
    delta_row(p, sm, row, mine, value, task);
    const float4 o = delta_rule(p, sm, row, task, state);
    delta_finish(p, sm, row, task, o, t % 2);
    if (segment.snapshots >= 0) {
      store_state(p.scan, task, segment.snapshots + (int)t, state);
      store_windows(a, segment.snapshots + (int)t, task, mine, value);
    }
  }
  if (segment.n > 0) {
    store_state(p.scan, task, segment.state_out, state);
    store_windows(a, segment.state_out, task, mine, value);
  }
}
