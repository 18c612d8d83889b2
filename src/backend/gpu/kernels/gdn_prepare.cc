// gdn_prepare: causal convolution over 4 rows and SiLU, then per head of q and k x / sqrt(mean(x^2)
// + eps), q times 1/128, k times 128^-0.5; beta = sigmoid(b), decay = exp(-exp(A_log) * softplus(a
// + dt_bias)); the window of the last 3 rows to the segment's slots.
//
// Grid: y blocks of kGdnPrepareRows rows of a segment; x ceil((2 Hk + Hv + 1) / 4) groups of 128
// threads: a simdgroup per head of 128 channels of q, k or v, and one for the gates. A lane holds
// 4 channels: its weights stay in registers, and each row is read once and slides through them.
// Traffic: qkv in and q, k, v out once, weights once a block. A row's numbers depend on 4 rows.
//
// A segment's first block reads the window of state_in and, since both may be one slot, writes
// that of state_out too, from rows that nobody writes.
#include "backend/gpu/kernels/gdn_prepare_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/floats.h"
#include "backend/gpu/kernels/pass.h"

KERNEL_CONST uint kGdnPrepareRows = 16;  // steps/gdn_prepare.cc has it too.
KERNEL_CONST uint kGdnPrepareWindow = 3;

// 4 channels of one lane: the rows before the one at hand, oldest first.
struct GdnPrepareWindow {
  float x[3][4];
};

FN void gdn_prepare_store(CON GdnPrepareParams& a, const THR GdnPrepareWindow& w, int slot,
                          uint channel, uint n_channels) {
  DEV float* to = a.windows + (ulong)(uint)slot * a.slot_floats + channel;
  UNROLL for (uint j = 0; j < kGdnPrepareWindow; j++) store_floats(to + j * n_channels, w.x[j]);
}

// The rows before row `row` of the segment, which is 0 or at least 3.
FN void gdn_prepare_load(CON GdnPrepareParams& a, THR GdnPrepareWindow& w,
                         const THR PassBlock& segment, uint row, uint channel, uint n_channels) {
  if (row == 0 && segment.state_in < 0) {
    UNROLL for (uint i = 0; i < 12; i++) w.x[i / 4][i % 4] = 0.0f;
    return;
  }
  const ulong first = (ulong)(uint)segment.first_row + row - kGdnPrepareWindow;
  DEV const float* from = row > 0 ? a.qkv + first * n_channels
                                  : a.windows + (ulong)(uint)segment.state_in * a.slot_floats;
  from += channel;
  UNROLL for (uint j = 0; j < kGdnPrepareWindow; j++) load_floats(from + j * n_channels, w.x[j]);
}

// q and k: over the 128 channels of the simdgroup.
FN void gdn_prepare_norm(THR float* y, float scale, float eps) {
  float squares = 0.0f;
  UNROLL for (uint e = 0; e < 4; e++) squares = m_fma(y[e], y[e], squares);
  const float factor = m_rsqrt(lanes_sum(squares) / 128.0f + eps) * scale;
  UNROLL for (uint e = 0; e < 4; e++) y[e] *= factor;
}

FN void gdn_prepare_head(CON GdnPrepareParams& a, const THR PassBlock& block, uint head,
                         uint lane) {
  const uint n_heads = 2 * a.n_key_heads + a.n_value_heads, n_channels = n_heads * 128;
  const uint channel = head * 128 + lane * 4;
  float taps[4][4];
  UNROLL for (uint e = 0; e < 4; e++) load_floats(a.conv_weight + (channel + e) * 4, taps[e]);
  GdnPrepareWindow w;
  gdn_prepare_load(a, w, block, block.first, channel, n_channels);

  const bool is_q = head < a.n_key_heads, is_v = head >= 2 * a.n_key_heads;
  DEV float* out = is_q ? a.q : is_v ? a.v : a.k;
  const uint n_out = is_v ? a.n_value_heads : a.n_key_heads;
  out += (is_q ? head : is_v ? head - 2 * a.n_key_heads : head - a.n_key_heads) * 128 + lane * 4;
  const float scale = is_q ? 0x1p-7f : 0x1.6a09e6p-4f;
  for (uint i = 0; i < block.n; i++) {
    const ulong row = (ulong)((uint)block.first_row + block.first + i);
    float x[4], y[4];
    load_floats(a.qkv + row * n_channels + channel, x);
    UNROLL for (uint e = 0; e < 4; e++) {
      float sum = taps[e][0] * w.x[0][e];
      sum = m_fma(taps[e][1], w.x[1][e], sum);
      sum = m_fma(taps[e][2], w.x[2][e], sum);
      y[e] = m_silu(m_fma(taps[e][3], x[e], sum));
      w.x[0][e] = w.x[1][e];
      w.x[1][e] = w.x[2][e];
      w.x[2][e] = x[e];
    }
    if (!is_v) gdn_prepare_norm(y, scale, a.eps);
    store_floats(out + row * n_out * 128, y);
    if (block.snapshots >= 0) {
      gdn_prepare_store(a, w, block.snapshots + (int)(block.first + i), channel, n_channels);
    }
  }
  if (block.first > 0) return;
  const uint n_rows = (uint)block.n_rows;
  if (n_rows > block.n) gdn_prepare_load(a, w, block, n_rows, channel, n_channels);
  gdn_prepare_store(a, w, block.state_out, channel, n_channels);
}

FN void gdn_prepare_gates(CON GdnPrepareParams& a, const THR PassBlock& block, uint lane) {
  const uint n_heads = a.n_value_heads;
  const ulong first = (ulong)((uint)block.first_row + block.first) * n_heads;
  for (uint i = lane; i < block.n * n_heads; i += 32) {
    const uint head = i % n_heads;
    a.beta[first + i] = m_sigmoid(a.b[first + i]);
    a.decay[first + i] =
        m_exp(-m_exp(a.a_log[head]) * m_softplus(a.a[first + i] + a.dt_bias[head]));
  }
}

KERNEL(gdn_prepare, GdnPrepareParams, NoShared, 128) {
  const uint n_heads = 2 * a.n_key_heads + a.n_value_heads, head = id.group.x * 4 + id.simd;
  PassBlock block;
  pass_block(a.control, id.group.y, kGdnPrepareRows, block);
  if (block.n == 0) return;  // The same for all threads.
  if (head < n_heads) gdn_prepare_head(a, block, head, id.lane);
  if (head == n_heads) gdn_prepare_gates(a, block, id.lane);
}
