// gdn_project: the norm and four products in one launch.
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

void record_gdn_project(Recorder& to, const GdnProjectArgs& args) {
  record_linear(
      to, linear_way(to),
      {.control = args.control, .x = args.h, .norm = args.norm, .eps = args.eps},
      {{args.in_qkv, args.qkv}, {args.in_z, args.z}, {args.in_b, args.b}, {args.in_a, args.a}});
}

}  // namespace lily::gpu
