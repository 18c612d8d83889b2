// head: norm and product of a block of head rows. How many rows it has is known on the device only,
// so a pass of many rows names both ways to multiply, of which one does nothing.
#include "backend/gpu/kernels/head_states_params.h"
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

void record_head(Recorder& to, const HeadArgs& args) {
  record_linear(to, LinearWay::kEither,
                {.control = args.control,
                 .x = args.h,
                 .norm = args.norm,
                 .eps = args.eps,
                 .head_from = args.first},
                {{args.lm_head, args.logits}});
  if (args.states == nullptr) return;
  const int rows = head_block_bound(to, args.first), hidden = args.lm_head.cols;
  const HeadStatesParams params{.control = words_of(args.control),
                                .h = args.h,
                                .norm = args.norm,
                                .states = args.states,
                                .hidden = static_cast<unsigned>(hidden),
                                .first = static_cast<unsigned>(args.first),
                                .eps = args.eps,
                                .unused = 0};
  to.launch("head_states", params, {static_cast<unsigned>(rows)}, 256,
            {range(args.control), range(args.h, times(to.rows_bound(), hidden)),
             range(args.norm, times(hidden, 1))},
            {range(args.states + times(args.first, hidden), times(rows, hidden))});
}

}  // namespace lily::gpu
