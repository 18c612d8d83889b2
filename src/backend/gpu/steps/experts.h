// Rows sorted by expert, for the passes that multiply on tiles.
#pragma once

#include "backend/gpu/recorder.h"

namespace lily::gpu {

inline constexpr int kExpertBlockRows = 32;

// Scratch that experts_sort fills.
struct SortedExperts {
  std::uint32_t* slots;   // [T * K]
  std::uint32_t* blocks;  // [n_blocks, 3]
  int n_blocks;           // of a pass of rows_bound rows
  Range slots_range, blocks_range;
};

// Of a pass of `rows` rows at most; kernels/experts_sort.cc says why.
constexpr int expert_blocks(int rows, int n_chosen, int n_experts) {
  return rows * n_chosen / kExpertBlockRows + n_experts;
}

SortedExperts record_experts_sort(Recorder& to, const PassControl* control,
                                  const std::int32_t* experts, int n_chosen, int n_experts);

}  // namespace lily::gpu
