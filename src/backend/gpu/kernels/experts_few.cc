// The experts of few rows, fp32. Each row reads the experts it chose and the shared one, all in one
// grid; rows that chose the same expert meet in the cache.
#include "backend/gpu/kernels/experts_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/experts_few.h"
#include "backend/gpu/kernels/pass.h"

// act = silu(x gate^T) * (x up^T).
// Grid: x ceil(larger width / 8), y K + 1 places (the last is the shared expert), z rows; groups of
// 64 threads: two simdgroups of four outputs each, so four rows of gate and four of up.
// Traffic: gate and up of the chosen and of the shared once; x twice per four outputs, from cache.
KERNEL(experts_few_up, ExpertsUpParams, NoShared, 64) {
  const uint t = id.group.z, place = id.group.y, row0 = (id.group.x * 2 + id.simd) * kFewWeightRows;
  const bool shared = place == a.n_chosen;
  const uint width = shared ? a.shared_width : a.width;
  if (t < pass_rows(a.control) && row0 < width) {
    const ulong slot = (ulong)t * a.n_chosen + place;
    const ulong first = shared ? 0 : (ulong)(uint)a.experts[slot] * width;
    float gate[kFewWeightRows], up[kFewWeightRows];
    CON ExpertMatrix& gates = shared ? a.shared_gate : a.gate;
    CON ExpertMatrix& ups = shared ? a.shared_up : a.up;
    DEV const float* x = a.x + (ulong)t * gates.cols;
    few_one(gates, first, row0, width, id.lane, 32, x, gate);
    few_one(ups, first, row0, width, id.lane, 32, x, up);
    DEV float* act = shared ? a.shared_act + (ulong)t * width : a.act + slot * width;
    UNROLL for (uint r = 0; r < kFewWeightRows; r++) {
      const float g = lanes_sum(gate[r]), u = lanes_sum(up[r]);
      if (id.lane == 0 && row0 + r < width) act[row0 + r] = m_silu(g) * u;
    }
  }
}

// h += the experts' outputs by their weights, added in the order of the list, then the shared one.
// Grid: x ceil(D / 8), y rows; groups of 64 threads: two simdgroups of four outputs each. The rows
// of down are short, so half a simdgroup takes one expert and the other half the next.
// Traffic: down of the chosen and of the shared once; act once per four outputs, from cache.
KERNEL(experts_few_down, ExpertsDownParams, NoShared, 64) {
  const uint t = id.group.y, row0 = (id.group.x * 2 + id.simd) * kFewWeightRows;
  if (t < pass_rows(a.control) && row0 < a.hidden) {
    const uint upper = id.lane >> 4;
    float totals[kFewWeightRows] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (uint pair = 0; pair <= a.n_chosen; pair += 2) {
      const uint place = pair + upper;
      const ulong slot = (ulong)t * a.n_chosen + place;
      float sums[kFewWeightRows] = {0.0f, 0.0f, 0.0f, 0.0f};
      float weight = 0.0f;
      if (place < a.n_chosen) {
        const ulong first = (ulong)(uint)a.experts[slot] * a.hidden;
        few_one(a.down, first, row0, a.hidden, id.lane & 15u, 16, a.act + slot * a.down.cols, sums);
        weight = a.weights[slot];
      } else if (place == a.n_chosen) {
        few_one(a.shared_down, 0, row0, a.hidden, id.lane & 15u, 16,
                a.shared_act + (ulong)t * a.shared_down.cols, sums);
        weight = a.shared_weight[t];
      }
      UNROLL for (uint r = 0; r < kFewWeightRows; r++) {
        float sum = sums[r];
        UNROLL for (uint m = 8; m > 0; m >>= 1) sum += lanes_xor(sum, m);
        sum *= weight;
        const float other = lanes_xor(sum, 16);
        totals[r] += upper != 0 ? other : sum;
        totals[r] += upper != 0 ? sum : other;
      }
    }
    DEV float* h = a.h + (ulong)t * a.hidden + row0;
    UNROLL for (uint r = 0; r < kFewWeightRows; r++) {
      if (id.lane == 0 && row0 + r < a.hidden) h[r] += totals[r];
    }
  }
}
