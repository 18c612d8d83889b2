// h += the outputs of experts_tile_down by their weights, added in the order of each row's list,
// then the shared expert's.
// Grid: x ceil(D / 256), y rows; groups of 64 threads, four columns each.
// Traffic: K + 1 rows of out once, h once in and out.
#include "backend/gpu/kernels/experts_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/pass.h"

KERNEL(experts_combine, ExpertsCombineParams, NoShared, 64) {
  const uint t = id.group.y, c = (id.group.x * 64 + id.tid) * 4;
  if (t < pass_rows(a.control) && c < a.hidden) {
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (uint place = 0; place <= a.n_chosen; place++) {
      const uint slot = place < a.n_chosen ? t * a.n_chosen + place : a.shared_at + t;
      const float weight = place < a.n_chosen ? a.weights[slot] : a.shared_weight[t];
      const uint2 pairs = ((DEV const uint2*)a.out)[((ulong)slot * a.hidden + c) / 4];
      sums[0] = m_fma(weight, bf16_lo(pairs.x), sums[0]);
      sums[1] = m_fma(weight, bf16_hi(pairs.x), sums[1]);
      sums[2] = m_fma(weight, bf16_lo(pairs.y), sums[2]);
      sums[3] = m_fma(weight, bf16_hi(pairs.y), sums[3]);
    }
    DEV float4* h = (DEV float4*)(a.h + (ulong)t * a.hidden + c);
    const float4 v = h[0];
    h[0] = make_float4(v.x + sums[0], v.y + sums[1], v.z + sums[2], v.w + sums[3]);
  }
}
