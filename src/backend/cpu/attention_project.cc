// attention_project: the norm and the projections to queries with gates, keys and values, their
// blocks as one list.
#include "backend/cpu/cpu_backend.h"

namespace lily::cpu {

void CpuBackend::attention_project(const AttentionProjectArgs& args) {
  const Linear::Norm norm{.weight = args.norm, .eps = args.eps};
  const Linear::Product products[] = {
      {args.in_q, args.q_gate}, {args.in_k, args.k}, {args.in_v, args.v}};
  linear_.multiply({args.h, args.control->n_rows, args.in_q.cols}, &norm, products);
}

}  // namespace lily::cpu
