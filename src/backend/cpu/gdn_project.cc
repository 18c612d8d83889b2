// gdn_project: the norm and the four projections of a delta layer, their blocks as one list.
#include "backend/cpu/cpu_backend.h"

namespace lily::cpu {

void CpuBackend::gdn_project(const GdnProjectArgs& args) {
  const Linear::Norm norm{.weight = args.norm, .eps = args.eps};
  const Linear::Product products[] = {
      {args.in_qkv, args.qkv}, {args.in_z, args.z}, {args.in_b, args.b}, {args.in_a, args.a}};
  linear_.multiply({args.h, args.control->n_rows, args.in_qkv.cols}, &norm, products);
}

}  // namespace lily::cpu
