// states = rmsnorm(h) of the head rows first .. first + 31, kept for a draft head.
// Grid: a group of 256 threads per head row of the block.
// Traffic: h twice (the second time from cache), norm and states once.
#include "backend/gpu/kernels/head_states_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/pass.h"

struct HeadStatesShared {
  float parts[32];
};

KERNEL(head_states, HeadStatesParams, HeadStatesShared, 256) {
  const uint i = a.first + id.group.x;
  if (i < pass_head_rows(a.control)) {
    DEV const float* h = a.h + (ulong)pass_head_row(a.control, i) * a.hidden;
    DEV float* state = a.states + (ulong)i * a.hidden;
    float sum = 0.0f;
    for (uint c = id.tid; c < a.hidden; c += id.threads) sum = m_fma(h[c], h[c], sum);
    const float scale = m_rsqrt(group_sum(sum, sm.parts, id) / (float)a.hidden + a.eps);
    for (uint c = id.tid; c < a.hidden; c += id.threads) state[c] = h[c] * scale * a.norm[c];
  }
}
