// route: the products in fp32 for any number of rows, since a rounding to bf16 could choose other
// experts; then the choice.
#include "backend/gpu/kernels/route_choose_params.h"
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

std::size_t route_scratch_bytes(const ModelSpec& spec, int max_rows) {
  return round_up(4 * times(max_rows, spec.n_experts), kSectionAlign);
}

void record_route(Recorder& to, const RouteArgs& args) {
  const int rows = to.rows_bound(), hidden = args.router.cols, n_experts = args.router.rows;
  LILY_CHECK(n_experts <= kMaxExperts && args.n_chosen <= kMaxChosenExperts);
  LILY_CHECK(n_experts <= to.spec().n_experts && args.n_chosen <= n_experts);
  auto* logits = to.scratch_of<float>("router logits", times(to.max_rows(), to.spec().n_experts));
  record_linear(to, LinearWay::kRows,
                {.control = args.control, .x = args.h, .norm = args.norm, .eps = args.eps},
                {{args.router, logits}, {args.shared_gate, args.shared_weight}});
  const RouteChooseParams params{.control = words_of(args.control),
                                 .h = args.h,
                                 .norm = args.norm,
                                 .logits = logits,
                                 .x = args.x,
                                 .experts = args.experts,
                                 .weights = args.expert_weights,
                                 .shared_weight = args.shared_weight,
                                 .hidden = static_cast<unsigned>(hidden),
                                 .n_experts = static_cast<unsigned>(n_experts),
                                 .n_chosen = static_cast<unsigned>(args.n_chosen),
                                 .eps = args.eps};
  const Range shared = range(args.shared_weight, times(rows, 1));
  to.launch("route_choose", params, {static_cast<unsigned>(rows)}, 256,
            {range(args.control), range(args.h, times(rows, hidden)),
             range(args.norm, times(hidden, 1)), range(logits, times(rows, n_experts)), shared},
            {range(args.x, times(rows, hidden)), range(args.experts, times(rows, args.n_chosen)),
             range(args.expert_weights, times(rows, args.n_chosen)), shared});
}

}  // namespace lily::gpu
