// The experts of few rows with nothing fused: each product, the activation and the weighted sum are
// kernels of their own, which hand fp32 on through device memory. Each number comes about as in
// experts_few.cc, so both ways have the same bits.
#include "backend/gpu/kernels/experts_apart_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/experts_few.h"
#include "backend/gpu/kernels/pass.h"

// y = x W^T of each place, kLanes lanes to four outputs: 16 where rows are short.
// Grid: x ceil(rows / outputs of a group), y places, z rows; groups of 64 threads.
// Traffic: the matrix of each place once; x once per four outputs, from cache.
template <uint kLanes>
FN void experts_product(CON ExpertsProductParams& a, const THR Ids& id) {
  const uint t = id.group.z, place = a.first_place + id.group.y;
  const bool shared = place == a.n_chosen;
  const uint rows = shared ? a.shared_rows : a.rows;
  const uint team = (id.group.x * 2 + id.simd) * (32 / kLanes) + id.lane / kLanes;
  const uint row0 = team * kFewWeightRows;  // Past the end: the last row, not written.
  if (t < pass_rows(a.control)) {
    const ulong slot = (ulong)t * a.n_chosen + place;
    CON ExpertMatrix& m = shared ? a.shared_matrix : a.matrix;
    const ulong first = shared ? 0 : (ulong)(uint)a.experts[slot] * rows;
    DEV const float* x = shared ? a.shared_x : a.x;
    const ulong x_row = !shared && a.x_of_slots != 0 ? slot : t;
    float sums[kFewWeightRows];
    few_one(m, first, row0, rows, id.lane % kLanes, kLanes, x + x_row * m.cols, sums);
    DEV float* y = shared ? a.shared_y + (ulong)t * rows : a.y + slot * rows;
    UNROLL for (uint r = 0; r < kFewWeightRows; r++) {
      float sum = sums[r];
      UNROLL for (uint mask = kLanes / 2; mask > 0; mask >>= 1) sum += lanes_xor(sum, mask);
      if (id.lane % kLanes == 0 && row0 + r < rows) y[row0 + r] = sum;
    }
  }
}

KERNEL(experts_product_16, ExpertsProductParams, NoShared, 64) {
  experts_product<16>(a, id);
}
KERNEL(experts_product_32, ExpertsProductParams, NoShared, 64) {
  experts_product<32>(a, id);
}

// act = silu(gate) * up, in place of up.
// Grid: x ceil(larger width / 64), y K + 1 places, z rows; groups of 64 threads.
// Traffic: gate once, act in and out.
KERNEL(experts_activate, ExpertsActivateParams, NoShared, 64) {
  const uint t = id.group.z, place = id.group.y, i = id.group.x * 64 + id.tid;
  const bool shared = place == a.n_chosen;
  const uint width = shared ? a.shared_width : a.width;
  if (t < pass_rows(a.control) && i < width) {
    const ulong at = (shared ? (ulong)t : (ulong)t * a.n_chosen + place) * width + i;
    DEV const float* gate = shared ? a.shared_gate : a.gate;
    DEV float* act = shared ? a.shared_act : a.act;
    act[at] = m_silu(gate[at]) * act[at];
  }
}

// h += the experts' outputs by their weights, added in the order of the list, then the shared one.
// Grid: x ceil(D / 64), y rows; groups of 64 threads.
// Traffic: K + 1 rows of outputs once, h in and out.
KERNEL(experts_sum, ExpertsSumParams, NoShared, 64) {
  const uint t = id.group.y, c = id.group.x * 64 + id.tid;
  if (t < pass_rows(a.control) && c < a.hidden) {
    float total = 0.0f;
    for (uint place = 0; place < a.n_chosen; place++) {
      const ulong slot = (ulong)t * a.n_chosen + place;
      total += a.out[slot * a.hidden + c] * a.weights[slot];
    }
    const ulong at = (ulong)t * a.hidden + c;
    total += a.shared_out[at] * a.shared_weight[t];
    a.h[at] += total;
  }
}
