// attention_project: norm, then queries with their gates, keys and values of an attention layer.
#include "backend/reference/arithmetic.h"
#include "backend/reference/reference_backend.h"

namespace lily::reference {

void ReferenceBackend::attention_project(const AttentionProjectArgs& args) {
  const int n_rows = args.control->n_rows;
  const auto x = norm_rows(args.h, args.norm, n_rows, args.in_q.cols, args.eps);
  multiply(args.in_q, x.data(), n_rows, args.q_gate);
  multiply(args.in_k, x.data(), n_rows, args.k);
  multiply(args.in_v, x.data(), n_rows, args.v);
}

}  // namespace lily::reference
