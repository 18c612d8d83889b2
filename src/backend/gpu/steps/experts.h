// The experts of passes that multiply on tiles, rows sorted by expert.
#pragma once

#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/recorder.h"

namespace lily::gpu {

// Scratch that experts_sort fills.
struct SortedExperts {
  std::uint32_t* slots;   // [T * K]
  std::uint32_t* blocks;  // [n_blocks, 3]
  int n_blocks;           // of a pass of rows_bound rows
  int block_rows;
  Range slots_range, blocks_range;
};

// Of a pass of `rows` rows at most; kernels/experts_sort.cc says why.
constexpr int expert_blocks(int rows, int n_chosen, int n_experts, int block_rows) {
  return rows * n_chosen / block_rows + n_experts;
}

// Sorts the rows, unless the pass has done so since `experts` were written.
SortedExperts record_experts_sort(Recorder& to, const PassControl* control,
                                  const std::int32_t* experts, int n_chosen, int n_experts);

// In one launch for all experts or, where weights are written out first, in one for as many as fit.
void record_experts_tile_up(Recorder& to, const ExpertsUpArgs& args, ExpertsUpParams params);
// Into params.out, which experts_combine then adds up.
void record_experts_tile_down(Recorder& to, const ExpertsDownArgs& args, ExpertsDownParams params);

}  // namespace lily::gpu
