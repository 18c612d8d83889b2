// The projection of a delta layer for Hopper (linear_mma.h), and of gdn_prepare.cc what concerns
// one number at a time: convolution and SiLU of q, k and v, whose windows move on; the gate of z;
// the sigmoid of b; the decay of a. Each is left in the place of the number it is made of, for
// delta_step.cu.
#include "backend/gpu/cuda/kernels/delta_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/linear_mma.h"
#include "backend/gpu/kernels/floats.h"
#include "backend/gpu/kernels/pass.h"

struct DeltaOutput {
  const DeltaProjectParams& p;
  MmaRow r;
  PassBlock row;             // The row of x: its segment.
  float taps[4], window[3];  // Of a channel of q, k, v.
  float rate, bias;          // Of a head's decay.

  __device__ __forceinline__ uint channels() const {
    return (2 * p.prepare.n_key_heads + p.prepare.n_value_heads) * 128;
  }
  __device__ __forceinline__ void load_window(uint t) {
    pass_row(p.prepare.control, t, row);
    if (row.first > 0) return;  // It has been moved on from the row before.
    const float* from =
        p.prepare.windows + (ulong)(uint)row.state_in * p.prepare.slot_floats + r.row;
    UNROLL for (uint j = 0; j < 3; j++) window[j] = row.state_in < 0 ? 0.0f : from[j * channels()];
  }
  __device__ __forceinline__ void store_window(int slot) {
    float* to = p.prepare.windows + (ulong)(uint)slot * p.prepare.slot_floats + r.row;
    UNROLL for (uint j = 0; j < 3; j++) to[j * channels()] = window[j];
  }
  __device__ __forceinline__ float convolved(uint t, float x) {
    float sum = taps[0] * window[0];
    sum = m_fma(taps[1], window[1], sum);
    sum = m_fma(taps[2], window[2], sum);
    window[0] = window[1], window[1] = window[2], window[2] = x;
    if (row.snapshots >= 0) store_window(row.snapshots + (int)row.first);
    if ((int)row.first + 1 == row.n_rows) store_window(row.state_out);
    return m_silu(m_fma(taps[3], x, sum));
  }

  __device__ __forceinline__ void start(const MmaRow& mine) {
    r = mine;
    if (r.part == 0) {
      load_floats(p.prepare.conv_weight + (ulong)r.row * 4, taps);
      if (p.fetch_early != 0) load_window(0);
    }
    if (r.part == 3) rate = p.prepare.a_log[r.row], bias = p.prepare.dt_bias[r.row];
  }
  __device__ __forceinline__ void inputs_there() {
    if (r.part == 0 && p.fetch_early == 0) load_window(0);
  }
  __device__ __forceinline__ void before_sum(uint t) {
    if (r.part == 0 && t > 0) load_window(t);
  }
  __device__ __forceinline__ void finish(uint t, float x) {
    const LinearPart& part = p.product.linear.parts[r.part];
    float y = x;
    if (r.part == 0) y = convolved(t, x);
    if (r.part == 1) y = p.z_sigmoid != 0 ? m_sigmoid(x) : m_silu(x);
    if (r.part == 2) y = m_sigmoid(x);
    if (r.part == 3) y = m_exp(-m_exp(rate) * m_softplus(x + bias));
    part.y[(ulong)t * part.rows + r.row] = y;
  }
};

template <uint kCols, uint kSets, uint kTiles>
FN void delta_project(const DeltaProjectParams& p) {
  DeltaOutput output = {p};
  linear_mma<kCols, 4, kSets, kTiles, kNormInput>(p.product, output);
}

CUDA_KERNEL(delta_project_256, DeltaProjectParams, 512, 2) {
  delta_project<256, 16, 1>(a);
}
CUDA_KERNEL(delta_project_2048, DeltaProjectParams, 512, 2) {
  delta_project<2048, 2, 3>(a);
}
