// The K largest of a row's router logits, by ascending id, with weights that sum to one; the shared
// expert's gate; and x = rmsnorm(h), which the experts read.
// Grid: a group of 256 threads per row. An expert is chosen when fewer than K others are larger or
// equal with a lower id; its place in the list is the number of chosen ones before it. Of logits
// that are NaN nothing is larger: then more than K are chosen, and the first K listed.
// Traffic: h twice (the second time from cache), x once, E logits.
#include "backend/gpu/kernels/route_choose_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/pass.h"

// kMaxExperts and kMaxChosenExperts of spec/model_spec.h.
struct RouteChooseShared {
  float logits[512];
  uint chosen[512];
  float weights[16];
  float squares[32];
  float largest[32];
};

FN void route_norm(CON RouteChooseParams& a, TG RouteChooseShared& sm, const THR Ids& id) {
  DEV const float* h = a.h + (ulong)id.group.x * a.hidden;
  DEV float* x = a.x + (ulong)id.group.x * a.hidden;
  float sum = 0.0f;
  for (uint i = id.tid; i < a.hidden; i += id.threads) sum = m_fma(h[i], h[i], sum);
  const float scale = m_rsqrt(group_sum(sum, sm.squares, id) / (float)a.hidden + a.eps);
  for (uint i = id.tid; i < a.hidden; i += id.threads) x[i] = h[i] * scale * a.norm[i];
}

// Experts that are before expert e: larger, or equal with a lower id.
FN uint route_rank(CON RouteChooseParams& a, TG const float* logits, uint e) {
  const float mine = logits[e];
  uint rank = 0;
  for (uint i = 0; i < a.n_experts; i++)
    rank += logits[i] > mine || (logits[i] == mine && i < e) ? 1u : 0u;
  return rank;
}

KERNEL(route_choose, RouteChooseParams, RouteChooseShared, 256) {
  const uint t = id.group.x;
  if (t < pass_rows(a.control)) {
    route_norm(a, sm, id);
    float most = as_type<float>(0xff7fffffu);
    for (uint e = id.tid; e < a.n_experts; e += id.threads) {
      sm.logits[e] = a.logits[(ulong)t * a.n_experts + e];
      most = m_max(most, sm.logits[e]);
    }
    most = group_max(most, sm.largest, id);
    for (uint e = id.tid; e < a.n_experts; e += id.threads)
      sm.chosen[e] = route_rank(a, sm.logits, e) < a.n_chosen ? 1u : 0u;
    group_barrier();
    for (uint e = id.tid; e < a.n_experts; e += id.threads) {
      uint place = 0;
      for (uint i = 0; i < e; i++) place += sm.chosen[i];
      if (sm.chosen[e] != 0 && place < a.n_chosen) {
        a.experts[t * a.n_chosen + place] = (int)e;
        sm.weights[place] = m_exp(sm.logits[e] - most);
      }
    }
    group_barrier();
    float total = 0.0f;
    for (uint i = 0; i < a.n_chosen; i++) total += sm.weights[i];
    if (id.tid < a.n_chosen) a.weights[t * a.n_chosen + id.tid] = sm.weights[id.tid] / total;
    if (id.tid == 0) a.shared_weight[t] = m_sigmoid(a.shared_weight[t]);
  }
}
