// Shared kernels as stages: what they can they work out before, and they are already on their
// multiprocessors when the launch before them ends.
#include "backend/gpu/kernels/attention_merge.cc"
#include "backend/gpu/kernels/choose.cc"
#include "backend/gpu/kernels/vocabulary.cc"

#include "backend/gpu/cuda/kernels/stage.h"

FN Ids these_ids() {
  return {blockIdx,
          {gridDim.x, gridDim.y, gridDim.z},
          blockDim.x,
          (ushort)threadIdx.x,
          (ushort)(threadIdx.x & 31u),
          (ushort)(threadIdx.x >> 5)};
}

#define WAITING(name, Args, Shared, threads)            \
  extern "C" __global__ void __launch_bounds__(threads) \
      name##_waiting(const __grid_constant__ Args a) {  \
    __shared__ Shared sm;                               \
    next_may_start();                                   \
    wait_for_inputs();                                  \
    name##_body(a, sm, these_ids());                    \
  }

WAITING(choose_stats, VocabularyParams, VocabularyShared, 256)
WAITING(choose_rows, ChooseParams, ChooseShared, 256)

extern "C" __global__ void __launch_bounds__(256)
    attention_merge_waiting(const __grid_constant__ AttentionFewParams a) {
  __shared__ AttentionMergeShared sm;
  const Ids id = these_ids();
  PassBlock block;
  AttentionMergeTask task;
  HeadTurn turn;
  attention_merge_start(a, block, task, turn, id);
  next_may_start();
  wait_for_inputs();
  if (block.n > 0) attention_merge_finish(a, sm, task, turn, id);
}
