// The rest of gdn_prepare.cc, and gdn_scan_few, for Hopper and models with two value heads a key
// head: norms, delta rule and gated norm of few rows, but for the division by the heads' root mean
// squares, which is linear_mma.cu's. delta_project.cu has done what goes before.
// Grid: x 4 Hv groups, y segments; 256 threads. A group has 32 columns of one value head's state,
// 16 KiB, in registers, asked for before the projection has ended. Warp w has the keys 16 w .. 16 w
// + 15, lane l the columns 4 (l % 8) .. + 3 of keys l / 8, + 4, ...: 128-byte reads. One exchange
// within the group: k S, q S, q k and the squares of k and q are summed together, since q S' =
// decay q S + (q k) d, and the norms of q and k are factors. Traffic: S in and out, 128 KiB a head
// and segment; q, k of the projection four times, from cache.
#include "backend/gpu/cuda/kernels/delta_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/pass.h"

KERNEL_CONST uint kDeltaColumns = 32;

struct DeltaShared {
  float qk[256], v[32];  // q, then k, before their norms
  float4 sums[8][2][8];  // [warp][k S, q S][columns]
  float4 products[8];    // [warp]: q k, q q, k k
};

// What a group works on.
struct DeltaTask {
  uint head, quarter;
};

// The thread's 16 numbers of S.
struct DeltaState {
  float4 s[4];
};
FN float* delta_address(const GdnScanParams& a, const DeltaTask& task, int slot) {
  const uint key = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 8;
  return a.states + (ulong)(uint)slot * a.slot_floats + (task.head * 128 + key) * 128 +
         task.quarter * kDeltaColumns + threadIdx.x % 8 * 4;
}
FN void store_state(const GdnScanParams& a, const DeltaTask& task, int slot,
                    const DeltaState& state) {
  UNROLL for (uint i = 0; i < 4; i++)
      __stcs((float4*)(delta_address(a, task, slot) + i * 512), state.s[i]);
}

FN void load_state(const GdnScanParams& a, const DeltaTask& task, int slot, DeltaState& state) {
  UNROLL for (uint i = 0; i < 4; i++) {
    state.s[i] = slot < 0 ? make_float4(0.0f, 0.0f, 0.0f, 0.0f)
                          : __ldcs((const float4*)(delta_address(a, task, slot) + i * 512));
  }
}

FN float4 add4(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
FN float4 times4(float a, float4 b) {
  return make_float4(a * b.x, a * b.y, a * b.z, a * b.w);
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
// The thread's four columns of o, the same in all warps and keys.
FN float4 delta_rule(DeltaShared& sm, float beta, float decay, float eps, DeltaState& state) {
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float4 ks = make_float4(0.0f, 0.0f, 0.0f, 0.0f), qs = ks, products = ks;
  float key[4];
  UNROLL for (uint i = 0; i < 4; i++) {
    const uint at = warp * 16 + lane / 8 + 4 * i;
    key[i] = sm.qk[128 + at];
    const float query = sm.qk[at];
    ks = fma4(key[i], state.s[i], ks);
    qs = fma4(query, state.s[i], qs);
    products.x = m_fma(query, key[i], products.x);
    products.y = m_fma(query, query, products.y);
    products.z = m_fma(key[i], key[i], products.z);
  }
  ks = over_keys(ks);
  qs = over_keys(qs);
  products = over_keys(products);
  if (lane < 8) {
    sm.sums[warp][0][lane] = ks;
    sm.sums[warp][1][lane] = qs;
    if (lane == 0) sm.products[warp] = products;
  }
  group_barrier();

  ks = qs = products = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  UNROLL for (uint w = 0; w < 8; w++) {
    ks = add4(ks, sm.sums[w][0][lane % 8]);
    qs = add4(qs, sm.sums[w][1][lane % 8]);
    products = add4(products, sm.products[w]);
  }
  const float fq = m_rsqrt(products.y / 128.0f + eps) * 0x1p-7f;
  const float fk = m_rsqrt(products.z / 128.0f + eps) * 0x1.6a09e6p-4f;
  const float4 v = ((const float4*)sm.v)[lane % 8];
  ks = times4(fk, ks);
  const float4 d = times4(beta, fma4(-decay, ks, v));
  UNROLL for (uint i = 0; i < 4; i++) {
    state.s[i] = fma4(key[i] * fk, d, times4(decay, state.s[i]));
  }
  return fma4(products.x * fq * fk, d, times4(decay * fq, qs));
}

// What the gated norm leaves but for the head's root mean square, which the next launch takes from
// the squares. By the first warp; y, norm, gate: of the columns of eight threads.
FN void delta_finish(float* y, float* squares_to, float4 o, float4 norm, float4 gate) {
  float squares = (o.x * o.x + o.y * o.y) + (o.z * o.z + o.w * o.w);
  UNROLL for (uint m = 4; m > 0; m >>= 1) squares += lanes_xor(squares, m);
  if (threadIdx.x < 8)
    *(float4*)y = make_float4(o.x * norm.x * gate.x, o.y * norm.y * gate.y, o.z * norm.z * gate.z,
                              o.w * norm.w * gate.w);
  if (threadIdx.x == 0) *squares_to = squares;
}

CUDA_KERNEL(delta_step, DeltaStepParams, 256, 4) {
  __shared__ DeltaShared sm;
  const GdnPrepareParams& prepare = a.prepare;
  const GdnScanParams& scan = a.scan;
  const uint tid = threadIdx.x, n_values = scan.n_value_heads, n_keys = scan.n_key_heads;
  const uint channels = (2 * n_keys + n_values) * 128;
  const DeltaTask task = {blockIdx.x / 4, blockIdx.x % 4};
  const uint columns = task.head * 128 + task.quarter * kDeltaColumns;
  const uint mine = (tid < 128 ? 0 : (n_keys - 1) * 128) + task.head / 2 * 128 + tid,
             value = 2 * n_keys * 128 + columns + tid;
  if (a.fetch_early == 0) wait_for_inputs();
  PassBlock segment;
  pass_segment(prepare.control, blockIdx.y, segment);
  DeltaState state;
  load_state(scan, task, segment.state_in, state);
  float4 norm = make_float4(0.0f, 0.0f, 0.0f, 0.0f), gate = norm;
  if (tid < 8) norm = *(const float4*)(scan.norm + task.quarter * kDeltaColumns + tid * 4);
  if (a.fetch_early != 0) wait_for_inputs();
  for (uint t = 0; t < segment.n; t++) {
    const ulong row = (ulong)((uint)segment.first_row + t);
    const ulong at = row * n_values * 128 + columns + tid * 4;
    const float x = load_fresh(prepare.qkv + row * channels + mine),
                v = tid < kDeltaColumns ? load_fresh(prepare.qkv + row * channels + value) : 0.0f,
                beta = load_fresh(prepare.b + row * n_values + task.head),
                decay = load_fresh(prepare.a + row * n_values + task.head);
    if (tid < 8) gate = load_fresh4(scan.z + at);
    sm.qk[tid] = x;
    if (tid < kDeltaColumns) sm.v[tid] = v;
    group_barrier();
    if (t == 0) next_may_start();  // No sooner: what it asks for would stand in the way.
    const float4 o = delta_rule(sm, beta, decay, prepare.eps, state);
    if (tid < 32)
      delta_finish(scan.y + at, a.head_squares + (row * n_values + task.head) * 4 + task.quarter, o,
                   norm, gate);
    if (segment.snapshots >= 0) store_state(scan, task, segment.snapshots + (int)t, state);
    if (t + 1 < segment.n) group_barrier();
  }
  if (segment.n > 0) store_state(scan, task, segment.state_out, state);
}
