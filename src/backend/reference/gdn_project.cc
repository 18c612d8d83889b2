// gdn_project: norm, then the four projections of a delta layer.
#include "backend/reference/arithmetic.h"
#include "backend/reference/reference_backend.h"

namespace lily::reference {

void ReferenceBackend::gdn_project(const GdnProjectArgs& args) {
  const int n_rows = args.control->n_rows;
  const auto x = norm_rows(args.h, args.norm, n_rows, args.in_qkv.cols, args.eps);
  multiply(args.in_qkv, x.data(), n_rows, args.qkv);
  multiply(args.in_z, x.data(), n_rows, args.z);
  multiply(args.in_b, x.data(), n_rows, args.b);
  multiply(args.in_a, x.data(), n_rows, args.a);
}

}  // namespace lily::reference
