// attention_project: the norm and three products in one launch.
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

void record_attention_project(Recorder& to, const AttentionProjectArgs& args) {
  record_linear(to, linear_way(to),
                {.control = args.control, .x = args.h, .norm = args.norm, .eps = args.eps},
                {{args.in_q, args.q_gate}, {args.in_k, args.k}, {args.in_v, args.v}});
}

}  // namespace lily::gpu
