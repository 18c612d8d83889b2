// Launches of experts_apart.cc, and the scratch that they hand numbers on through.
#include "backend/gpu/steps/experts_apart.h"

#include <algorithm>

#include "backend/gpu/kernels/experts_apart_params.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

// Numbers between two kernels: gates, or outputs of down.
struct Between {
  float* routed;  // [T, K, width]
  float* shared;  // [T, width of the shared]
};
std::size_t n_routed(const ModelSpec& spec, int max_rows) {
  return times(std::min(max_rows, kFewRows),
               spec.n_chosen * std::max(spec.expert_width, spec.hidden));
}
std::size_t n_shared(const ModelSpec& spec, int max_rows) {
  return times(std::min(max_rows, kFewRows), std::max(spec.shared_width, spec.hidden));
}
Between between(Recorder& to) {
  return {to.scratch_of<float>("of experts", n_routed(to.spec(), to.max_rows())),
          to.scratch_of<float>("of the shared expert", n_shared(to.spec(), to.max_rows()))};
}

// One product: `places` of each row from first_place on.
struct Product {
  const QuantMatrix &matrix, &shared_matrix;
  const PassControl* control;
  const float *x, *shared_x;
  const std::int32_t* experts;
  Between y;
  int n_experts, n_chosen, first_place, places;
  bool x_of_slots;
};

void record_product(Recorder& to, const Product& p) {
  const int rows = p.matrix.rows / p.n_experts, shared_rows = p.shared_matrix.rows,
            n_rows = to.rows_bound();
  const ExpertsProductParams params{.matrix = matrix_of(p.matrix),
                                    .shared_matrix = matrix_of(p.shared_matrix),
                                    .control = words_of(p.control),
                                    .x = p.x,
                                    .shared_x = p.shared_x,
                                    .experts = p.experts,
                                    .y = p.y.routed,
                                    .shared_y = p.y.shared,
                                    .rows = static_cast<unsigned>(rows),
                                    .shared_rows = static_cast<unsigned>(shared_rows),
                                    .n_chosen = static_cast<unsigned>(p.n_chosen),
                                    .first_place = static_cast<unsigned>(p.first_place),
                                    .x_of_slots = p.x_of_slots ? 1u : 0u,
                                    .unused = 0};
  const bool routed = p.first_place<p.n_chosen, shared = p.first_place + p.places> p.n_chosen;
  const auto of = [](bool used, Range r) { return used ? r : Range{}; };
  const int slots = n_rows * p.n_chosen, x_rows = p.x_of_slots ? slots : n_rows;
  to.launch(
      p.x_of_slots ? "experts_product_16" : "experts_product_32", params,
      {groups_of(std::max(routed ? rows : 0, shared ? shared_rows : 0), p.x_of_slots ? 16 : 8),
       static_cast<unsigned>(p.places), static_cast<unsigned>(n_rows)},
      64,
      {range(p.control), of(routed, range(p.x, times(x_rows, p.matrix.cols))),
       of(routed, range(p.experts, times(slots, 1))), of(routed, codes(p.matrix)),
       of(routed, scales(p.matrix)), of(routed, biases(p.matrix)),
       of(shared, range(p.shared_x, times(n_rows, p.shared_matrix.cols))),
       of(shared, codes(p.shared_matrix)), of(shared, scales(p.shared_matrix)),
       of(shared, biases(p.shared_matrix))},
      {of(routed, range(p.y.routed, times(slots, rows))),
       of(shared, range(p.y.shared, times(n_rows, shared_rows)))});
}

}  // namespace

std::size_t experts_apart_scratch_bytes(const ModelSpec& spec, int max_rows) {
  return round_up(4 * n_routed(spec, max_rows), kSectionAlign) +
         round_up(4 * n_shared(spec, max_rows), kSectionAlign);
}

void record_experts_up_apart(Recorder& to, const ExpertsUpArgs& args) {
  const int width = args.gate.rows / args.n_experts, shared_width = args.shared_gate.rows;
  const int n_rows = to.rows_bound(), places = args.n_chosen + 1;
  LILY_CHECK(width <= to.spec().expert_width && shared_width <= to.spec().shared_width);
  const Between gate = between(to), act{args.act, args.shared_act};
  const auto product = [&](const QuantMatrix& matrix, const QuantMatrix& shared, const Between& y) {
    record_product(to, {matrix, shared, args.control, args.x, args.x, args.experts, y,
                        args.n_experts, args.n_chosen, 0, places, false});
  };
  product(args.gate, args.shared_gate, gate);
  product(args.up, args.shared_up, act);
  const ExpertsActivateParams params{.control = words_of(args.control),
                                     .gate = gate.routed,
                                     .shared_gate = gate.shared,
                                     .act = args.act,
                                     .shared_act = args.shared_act,
                                     .width = static_cast<unsigned>(width),
                                     .shared_width = static_cast<unsigned>(shared_width),
                                     .n_chosen = static_cast<unsigned>(args.n_chosen),
                                     .unused = 0};
  const std::size_t n = times(n_rows * args.n_chosen, width), shared = times(n_rows, shared_width);
  const Range routed_act = range(args.act, n), shared_act = range(args.shared_act, shared);
  to.launch("experts_activate", params,
            {groups_of(std::max(width, shared_width), 64), static_cast<unsigned>(places),
             static_cast<unsigned>(n_rows)},
            64,
            {range(args.control), range(gate.routed, n), range(gate.shared, shared), routed_act,
             shared_act},
            {routed_act, shared_act});
}

void record_experts_down_apart(Recorder& to, const ExpertsDownArgs& args) {
  const int n_rows = to.rows_bound(), hidden = args.shared_down.rows;
  LILY_CHECK(hidden <= to.spec().hidden && args.n_chosen <= to.spec().n_chosen);
  const Between out = between(to);
  const auto product = [&](int first_place, int places) {
    record_product(
        to, {args.down, args.shared_down, args.control, args.act, args.shared_act, args.experts,
             out, args.n_experts, args.n_chosen, first_place, places, true});
  };
  product(0, args.n_chosen);
  product(args.n_chosen, 1);
  const ExpertsSumParams params{.control = words_of(args.control),
                                .out = out.routed,
                                .shared_out = out.shared,
                                .weights = args.expert_weights,
                                .shared_weight = args.shared_weight,
                                .h = args.h,
                                .hidden = static_cast<unsigned>(hidden),
                                .n_chosen = static_cast<unsigned>(args.n_chosen)};
  const std::size_t slots = times(n_rows, args.n_chosen);
  const Range h = range(args.h, times(n_rows, hidden));
  to.launch("experts_sum", params, {groups_of(hidden, 64), static_cast<unsigned>(n_rows)}, 64,
            {range(args.control), range(out.routed, slots * static_cast<std::size_t>(hidden)),
             range(out.shared, times(n_rows, hidden)), range(args.expert_weights, slots),
             range(args.shared_weight, times(n_rows, 1)), h},
            {h});
}

}  // namespace lily::gpu
