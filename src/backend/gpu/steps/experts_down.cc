// experts_down: one launch for few rows. For many: products on tiles (experts_tile.cc) into a row
// of bf16 per slot, and the weighted sum in the order of each row's list.
#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/steps/experts.h"
#include "backend/gpu/steps/experts_apart.h"
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

std::size_t n_outputs(const ModelSpec& spec, int max_rows) {
  return times(max_rows, spec.n_chosen + 1) * static_cast<std::size_t>(spec.hidden);
}

void record_combine(Recorder& to, const ExpertsDownArgs& args, const ExpertsDownParams& down,
                    Range out) {
  const int rows = to.rows_bound(), hidden = args.shared_down.rows;
  const ExpertsCombineParams params{.control = down.control,
                                    .out = down.out,
                                    .weights = args.expert_weights,
                                    .shared_weight = args.shared_weight,
                                    .h = args.h,
                                    .hidden = down.hidden,
                                    .n_chosen = down.n_chosen,
                                    .shared_at = down.shared_at,
                                    .unused = 0};
  const Range h = range(args.h, times(rows, hidden));
  to.launch("experts_combine", params, {groups_of(hidden, 256), static_cast<unsigned>(rows)}, 64,
            {range(args.control), out, range(args.expert_weights, times(rows, args.n_chosen)),
             range(args.shared_weight, times(rows, 1)), h},
            {h});
}

}  // namespace

std::size_t experts_down_scratch_bytes(const ModelSpec& spec, int max_rows) {
  return max_rows <= kFewRows ? 0 : round_up(2 * n_outputs(spec, max_rows), kSectionAlign);
}

void record_experts_down(Recorder& to, const ExpertsDownArgs& args) {
  const int rows = to.rows_bound(), hidden = args.shared_down.rows;
  LILY_CHECK(args.down.rows == args.n_experts * hidden && hidden <= to.spec().hidden);
  if (rows <= kFewRows && !to.mechanisms().fused_experts_down)
    return record_experts_down_apart(to, args);
  ExpertsDownParams params{};
  params.down = matrix_of(args.down);
  params.shared_down = matrix_of(args.shared_down);
  params.control = words_of(args.control);
  params.act = args.act;
  params.shared_act = args.shared_act;
  params.experts = args.experts;
  params.weights = args.expert_weights;
  params.shared_weight = args.shared_weight;
  params.h = args.h;
  params.hidden = static_cast<unsigned>(hidden);
  params.n_experts = static_cast<unsigned>(args.n_experts);
  params.n_chosen = static_cast<unsigned>(args.n_chosen);
  params.shared_at = static_cast<unsigned>(rows * args.n_chosen);
  if (rows <= kFewRows) {
    const Range act = range(args.act, times(rows * args.n_chosen, args.down.cols)),
                shared_act = range(args.shared_act, times(rows, args.shared_down.cols)),
                h = range(args.h, times(rows, hidden));
    to.launch(
        "experts_few_down", params, {groups_of(hidden, 8), static_cast<unsigned>(rows)}, 64,
        {range(args.control), act, shared_act, range(args.experts, times(rows, args.n_chosen)),
         range(args.expert_weights, times(rows, args.n_chosen)),
         range(args.shared_weight, times(rows, 1)), codes(args.down), scales(args.down),
         biases(args.down), codes(args.shared_down), scales(args.shared_down),
         biases(args.shared_down), h},
        {h});
    return;
  }
  params.out = to.scratch_of<std::uint16_t>("expert outputs", n_outputs(to.spec(), to.max_rows()));
  record_experts_tile_down(to, args, params);
  record_combine(to, args, params, range(params.out, times(rows * (args.n_chosen + 1), hidden)));
}

}  // namespace lily::gpu
