// gdn_scan: the gated delta rule, per value head and token, S [128 (key), 128 (value)] fp32:
//   S <- decay S;  d = beta (v - k S);  S <- S + k^T d;  o = q S
// S is read once, stays in registers for all rows of a segment, and is written once (and once a row
// where snapshots are asked for). Of gdn_scan_blocks alone it lies in state_out's slot between
// blocks of 32 rows.
//
// A simdgroup owns 8 columns of S, lane = 8 * part + column: 32 keys a lane, those of quarter
// `part` of each 16. Sums over keys: four chains of 8 fused products, then parts by xor 8, 16. So
// both forms give a row the same bits, however it came to be in the pass:
//   gdn_scan_few   few rows: a group per head and segment, 16 simdgroups; the gated norm follows
//                  within the group
//   gdn_scan_many  many rows: four groups of 4 simdgroups a head, so that more of the device works;
//                  y holds o, and gdn_norm.cc follows
//   gdn_scan_blocks  the same with the state in device memory
// Grid: x heads (times 4), y segments. Rows are brought to threadgroup memory 8 or 16 at a time.
// Traffic: S in and out, 128 KiB a head and segment; q and k once a group, v once.
#include "backend/gpu/kernels/gdn_scan_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/gdn_gate.h"
#include "backend/gpu/kernels/pass.h"

// kRows rows of one head; kColumns columns of its values.
template <uint kRows, uint kColumns>
struct GdnScanRows {
  float4 q[kRows * 32], k[kRows * 32];
  float4 v[kRows * kColumns / 4];
  float decay[kRows], beta[kRows];
};
struct GdnScanFewShared {
  GdnScanRows<8, 128> rows;
  float4 o[8 * 32];
};

// This lane's part of S.
struct GdnScanState {
  float s[32];
};

FN DEV float* gdn_scan_address(CON GdnScanParams& a, int slot, uint head, uint column, uint part) {
  return a.states + (ulong)(uint)slot * a.slot_floats + (head * 128 + part * 4) * 128 + column;
}
FN void gdn_scan_load(CON GdnScanParams& a, THR GdnScanState& state, int slot, uint head,
                      uint column, uint part) {
  UNROLL for (uint i = 0; i < 32; i++) state.s[i] = 0.0f;
  if (slot < 0) return;
  DEV const float* from = gdn_scan_address(a, slot, head, column, part);
  UNROLL for (uint i = 0; i < 32; i++) state.s[i] = from[(i / 4 * 16 + i % 4) * 128];
}
FN void gdn_scan_store(CON GdnScanParams& a, const THR GdnScanState& state, int slot, uint head,
                       uint column, uint part) {
  DEV float* to = gdn_scan_address(a, slot, head, column, part);
  UNROLL for (uint i = 0; i < 32; i++) to[(i / 4 * 16 + i % 4) * 128] = state.s[i];
}

// Rows row .. row + n - 1 of the pass to threadgroup memory.
template <uint kRows, uint kColumns>
FN void gdn_scan_stage(CON GdnScanParams& a, TG GdnScanRows<kRows, kColumns>& sm, uint row, uint n,
                       uint head, uint first_column, const THR Ids& id) {
  const uint key_head = head / (a.n_value_heads / a.n_key_heads);
  for (uint i = id.tid; i < n * 32; i += id.threads) {
    const ulong at = ((ulong)(row + i / 32) * a.n_key_heads + key_head) * 32 + i % 32;
    sm.q[i] = ((DEV const float4*)a.q)[at];
    sm.k[i] = ((DEV const float4*)a.k)[at];
  }
  const uint kQuads = kColumns / 4;
  for (uint i = id.tid; i < n * kQuads; i += id.threads) {
    const ulong at = ((ulong)(row + i / kQuads) * a.n_value_heads + head) * 32 + first_column / 4;
    sm.v[i] = ((DEV const float4*)a.v)[at + i % kQuads];
  }
  if (id.tid < n) {
    const ulong at = (ulong)(row + id.tid) * a.n_value_heads + head;
    sm.decay[id.tid] = a.decay[at];
    sm.beta[id.tid] = a.beta[at];
  }
}

// Over the 32 keys of a lane and the 4 parts of its column.
FN float gdn_scan_sum(const THR float* sums) {
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  sum += lanes_xor(sum, 8);
  return sum + lanes_xor(sum, 16);
}

// o of this lane's column; all four parts return it.
FN float gdn_scan_step(THR GdnScanState& state, TG const float4* q, TG const float4* k, float v,
                       float decay, float beta, uint part) {
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  UNROLL for (uint m = 0; m < 8; m++) {
    const float4 x = k[m * 4 + part];
    sums[0] = m_fma(x.x, state.s[m * 4], sums[0]);
    sums[1] = m_fma(x.y, state.s[m * 4 + 1], sums[1]);
    sums[2] = m_fma(x.z, state.s[m * 4 + 2], sums[2]);
    sums[3] = m_fma(x.w, state.s[m * 4 + 3], sums[3]);
  }
  const float d = beta * m_fma(-decay, gdn_scan_sum(sums), v);
  UNROLL for (uint e = 0; e < 4; e++) sums[e] = 0.0f;
  UNROLL for (uint m = 0; m < 8; m++) {
    const float4 x = k[m * 4 + part], y = q[m * 4 + part];
    const float key[4] = {x.x, x.y, x.z, x.w}, query[4] = {y.x, y.y, y.z, y.w};
    UNROLL for (uint e = 0; e < 4; e++) {
      const float s = m_fma(key[e], d, decay * state.s[m * 4 + e]);
      state.s[m * 4 + e] = s;
      sums[e] = m_fma(query[e], s, sums[e]);
    }
  }
  return gdn_scan_sum(sums);
}

KERNEL(gdn_scan_few, GdnScanParams, GdnScanFewShared, 512) {
  const uint head = id.group.x, part = id.lane / 8, column = id.simd * 8 + id.lane % 8;
  PassBlock segment;
  pass_segment(a.control, id.group.y, segment);
  const uint n_rows = segment.n;
  GdnScanState state;
  gdn_scan_load(a, state, segment.state_in, head, column, part);
  for (uint first = 0; first < n_rows; first += 8) {
    const uint n = u_min(8, n_rows - first), row = (uint)segment.first_row + first;
    group_barrier();
    gdn_scan_stage<8, 128>(a, sm.rows, row, n, head, 0, id);
    group_barrier();
    for (uint t = 0; t < n; t++) {
      TG const float* v = (TG const float*)sm.rows.v;
      const float o = gdn_scan_step(state, sm.rows.q + t * 32, sm.rows.k + t * 32,
                                    v[t * 128 + column], sm.rows.decay[t], sm.rows.beta[t], part);
      if (part == 0) ((TG float*)sm.o)[t * 128 + column] = o;
      if (segment.snapshots >= 0) {
        gdn_scan_store(a, state, segment.snapshots + (int)(first + t), head, column, part);
      }
    }
    group_barrier();
    if (id.simd < n) {
      const float4 v = sm.o[id.simd * 32 + id.lane];
      const float o[4] = {v.x, v.y, v.z, v.w};
      const ulong at = ((ulong)(row + id.simd) * a.n_value_heads + head) * 128;
      gdn_gate(o, a.z + at, a.norm, a.y + at, a.z_sigmoid, a.eps, id.lane);
    }
  }
  if (n_rows > 0) gdn_scan_store(a, state, segment.state_out, head, column, part);
}

typedef GdnScanRows<16, 32> GdnScanManyShared;
KERNEL_CONST uint kGdnScanBlock = 32;

template <bool kRegisters>
FN void gdn_scan_long(CON GdnScanParams& a, TG GdnScanManyShared& sm, const THR Ids& id) {
  const uint head = id.group.x / 4, first_column = id.group.x % 4 * 32;
  const uint part = id.lane / 8, in_group = id.simd * 8 + id.lane % 8;
  const uint column = first_column + in_group;
  PassBlock segment;
  pass_segment(a.control, id.group.y, segment);
  const uint n_rows = segment.n;
  GdnScanState state;
  gdn_scan_load(a, state, segment.state_in, head, column, part);
  for (uint first = 0; first < n_rows; first += 16) {
    const uint n = u_min(16, n_rows - first);
    const uint row = (uint)segment.first_row + first;
    DEV float* y = a.y + ((ulong)row * a.n_value_heads + head) * 128 + column;
    if (!kRegisters && first > 0 && first % kGdnScanBlock == 0) {
      gdn_scan_store(a, state, segment.state_out, head, column, part);
      group_barrier_device();
      gdn_scan_load(a, state, segment.state_out, head, column, part);
    }
    group_barrier();
    gdn_scan_stage<16, 32>(a, sm, row, n, head, first_column, id);
    group_barrier();
    for (uint t = 0; t < n; t++) {
      const float v = ((TG const float*)sm.v)[t * 32 + in_group];
      const float o =
          gdn_scan_step(state, sm.q + t * 32, sm.k + t * 32, v, sm.decay[t], sm.beta[t], part);
      if (part == 0) y[t * (a.n_value_heads * 128)] = o;
      if (segment.snapshots >= 0) {
        gdn_scan_store(a, state, segment.snapshots + (int)(first + t), head, column, part);
      }
    }
  }
  if (n_rows > 0) gdn_scan_store(a, state, segment.state_out, head, column, part);
}

KERNEL(gdn_scan_many, GdnScanParams, GdnScanManyShared, 128) {
  gdn_scan_long<true>(a, sm, id);
}
KERNEL(gdn_scan_blocks, GdnScanParams, GdnScanManyShared, 128) {
  gdn_scan_long<false>(a, sm, id);
}
