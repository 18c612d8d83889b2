// experts_up: one launch for few rows; many go to experts_tile.cc.
#include <algorithm>

#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/steps/experts.h"
#include "backend/gpu/steps/experts_apart.h"
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

void record_experts_up(Recorder& to, const ExpertsUpArgs& args) {
  const int rows = to.rows_bound(), hidden = args.gate.cols;
  const int width = args.gate.rows / args.n_experts, shared_width = args.shared_gate.rows;
  LILY_CHECK(hidden == args.up.cols && hidden == args.shared_gate.cols &&
             hidden == args.shared_up.cols);
  if (rows <= kFewRows && !to.mechanisms().fused_experts_up)
    return record_experts_up_apart(to, args);
  ExpertsUpParams params{};
  params.gate = matrix_of(args.gate);
  params.up = matrix_of(args.up);
  params.shared_gate = matrix_of(args.shared_gate);
  params.shared_up = matrix_of(args.shared_up);
  params.control = words_of(args.control);
  params.x = args.x;
  params.experts = args.experts;
  params.act = args.act;
  params.shared_act = args.shared_act;
  params.width = static_cast<unsigned>(width);
  params.shared_width = static_cast<unsigned>(shared_width);
  params.n_experts = static_cast<unsigned>(args.n_experts);
  params.n_chosen = static_cast<unsigned>(args.n_chosen);
  if (rows > kFewRows) return record_experts_tile_up(to, args, params);
  to.launch("experts_few_up", params,
            {groups_of(std::max(width, shared_width), 8), static_cast<unsigned>(args.n_chosen + 1),
             static_cast<unsigned>(rows)},
            64,
            {range(args.control), range(args.x, times(rows, hidden)),
             range(args.experts, times(rows, args.n_chosen)), codes(args.gate), scales(args.gate),
             biases(args.gate), codes(args.up), scales(args.up), biases(args.up),
             codes(args.shared_gate), scales(args.shared_gate), biases(args.shared_gate),
             codes(args.shared_up), scales(args.shared_up), biases(args.shared_up)},
            {range(args.act, times(rows * args.n_chosen, width)),
             range(args.shared_act, times(rows, shared_width))});
}

}  // namespace lily::gpu
