// Launches of experts_tile.
#include <algorithm>
#include <string>
#include <vector>

#include "backend/gpu/steps/dequantise.h"
#include "backend/gpu/steps/experts.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"
#include "backend/gpu/steps/tiles.h"

namespace lily::gpu {
namespace {

// What one launch works on: routed experts, the shared one, or both.
struct ExpertSlice {
  int first, end;  // Of the routed experts.
  bool shared;
};

// All experts and the shared one. `weights`: of one routed expert, all its matrices.
std::vector<ExpertSlice> expert_slices(const Recorder& to, int n_experts, std::size_t weights) {
  if (to.mechanisms().dequantise_in_tile) {
    return {{.first = 0, .end = n_experts, .shared = true}};
  }
  const int at_once = static_cast<int>(dequantised_weights(to.spec()) / weights);
  LILY_CHECK(at_once > 0);
  std::vector<ExpertSlice> slices;
  for (int first = 0; first < n_experts; first += at_once) {
    slices.push_back(
        {.first = first, .end = std::min(first + at_once, n_experts), .shared = false});
  }
  slices.push_back({.first = 0, .end = 0, .shared = true});
  return slices;
}

// A slice's part of the arguments, and how many blocks its grid has.
ExpertBlocks blocks_of(const SortedExperts& sorted, const ExpertSlice& slice) {
  const bool routed = slice.first < slice.end;
  return {.slots = sorted.slots,
          .blocks = sorted.blocks,
          .n_blocks = routed ? static_cast<unsigned>(sorted.n_blocks) : 0,
          .block_rows = static_cast<unsigned>(sorted.block_rows),
          .first_expert = static_cast<unsigned>(slice.first),
          .end_expert = static_cast<unsigned>(slice.end)};
}

unsigned n_blocks_of(const Recorder& to, const SortedExperts& sorted, const ExpertSlice& slice) {
  const unsigned shared = slice.shared ? groups_of(to.rows_bound(), sorted.block_rows) : 0;
  return blocks_of(sorted, slice).n_blocks + shared;
}

// A matrix of the slice's experts, written out from weight `at` on; nothing where it has none.
void write_out(Recorder& to, const PassControl* control, const ExpertSlice& slice, int n_experts,
               QuantMatrix& matrix, std::size_t& at) {
  if (slice.first == slice.end) return;
  const int rows = matrix.rows / n_experts;
  const int first = slice.first * rows, n = (slice.end - slice.first) * rows;
  matrix = record_dequantise(to, control, rows_of(matrix, first, n), at);
  at += times(n, matrix.cols);
}
void write_out_shared(Recorder& to, const PassControl* control, const ExpertSlice& slice,
                      QuantMatrix& matrix, std::size_t& at) {
  write_out(to, control, {.first = 0, .end = slice.shared ? 1 : 0, .shared = false}, 1, matrix, at);
}

void launch_up(Recorder& to, const ExpertsUpArgs& args, ExpertsUpParams params,
               const SortedExperts& sorted, const ExpertSlice& slice) {
  const TileForm form = tile_form(to);
  const int rows = to.rows_bound(), width = static_cast<int>(params.width),
            shared_width = static_cast<int>(params.shared_width);
  params.gate = matrix_of(args.gate);
  params.up = matrix_of(args.up);
  params.shared_gate = matrix_of(args.shared_gate);
  params.shared_up = matrix_of(args.shared_up);
  params.blocks = blocks_of(sorted, slice);
  to.launch(
      std::string("experts_tile_up").append(form.name), params,
      {groups_of(std::max(width, shared_width), form.cols / 2), n_blocks_of(to, sorted, slice)},
      128,
      {range(args.control), range(args.x, times(rows, args.gate.cols)), sorted.slots_range,
       sorted.blocks_range, codes(args.gate), scales(args.gate), biases(args.gate), codes(args.up),
       scales(args.up), biases(args.up), codes(args.shared_gate), scales(args.shared_gate),
       biases(args.shared_gate), codes(args.shared_up), scales(args.shared_up),
       biases(args.shared_up)},
      {range(args.act, times(rows * args.n_chosen, width)),
       range(args.shared_act, times(rows, shared_width))});
}

void launch_down(Recorder& to, const ExpertsDownArgs& args, ExpertsDownParams params,
                 const SortedExperts& sorted, const ExpertSlice& slice) {
  const TileForm form = tile_form(to);
  const int rows = to.rows_bound(), hidden = static_cast<int>(params.hidden);
  params.down = matrix_of(args.down);
  params.shared_down = matrix_of(args.shared_down);
  params.blocks = blocks_of(sorted, slice);
  to.launch(std::string("experts_tile_down").append(form.name), params,
            {groups_of(hidden, form.cols), n_blocks_of(to, sorted, slice)}, 128,
            {range(args.control), range(args.act, times(rows * args.n_chosen, args.down.cols)),
             range(args.shared_act, times(rows, args.shared_down.cols)), sorted.slots_range,
             sorted.blocks_range, codes(args.down), scales(args.down), biases(args.down),
             codes(args.shared_down), scales(args.shared_down), biases(args.shared_down)},
            {range(params.out, times(rows * (args.n_chosen + 1), hidden))});
}

}  // namespace

void record_experts_tile_up(Recorder& to, const ExpertsUpArgs& args, ExpertsUpParams params) {
  const auto sorted =
      record_experts_sort(to, args.control, args.experts, args.n_chosen, args.n_experts);
  const std::size_t weights = 2 * times(args.gate.rows / args.n_experts, args.gate.cols);
  for (const ExpertSlice& slice : expert_slices(to, args.n_experts, weights)) {
    ExpertsUpArgs part = args;
    if (!to.mechanisms().dequantise_in_tile) {
      std::size_t at = 0;
      for (QuantMatrix* m : {&part.gate, &part.up})
        write_out(to, args.control, slice, args.n_experts, *m, at);
      for (QuantMatrix* m : {&part.shared_gate, &part.shared_up})
        write_out_shared(to, args.control, slice, *m, at);
    }
    launch_up(to, part, params, sorted, slice);
  }
}

void record_experts_tile_down(Recorder& to, const ExpertsDownArgs& args, ExpertsDownParams params) {
  const auto sorted =
      record_experts_sort(to, args.control, args.experts, args.n_chosen, args.n_experts);
  const std::size_t weights = times(args.down.rows / args.n_experts, args.down.cols);
  for (const ExpertSlice& slice : expert_slices(to, args.n_experts, weights)) {
    ExpertsDownArgs part = args;
    if (!to.mechanisms().dequantise_in_tile) {
      std::size_t at = 0;
      write_out(to, args.control, slice, args.n_experts, part.down, at);
      write_out_shared(to, args.control, slice, part.shared_down, at);
    }
    launch_down(to, part, params, sorted, slice);
  }
}

}  // namespace lily::gpu
