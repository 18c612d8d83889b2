// Shared kernels as stages: they fetch nothing ahead, but are already on their multiprocessors when
// the launch before them ends.
#include "backend/gpu/kernels/attention_merge.cc"
#include "backend/gpu/kernels/choose.cc"
#include "backend/gpu/kernels/vocabulary.cc"

#include "backend/gpu/cuda/kernels/stage.h"

#define WAITING(name, Args, Shared, threads)            \
  extern "C" __global__ void __launch_bounds__(threads) \
      name##_waiting(const __grid_constant__ Args a) {  \
    __shared__ Shared sm;                               \
    next_may_start();                                   \
    wait_for_inputs();                                  \
    const Ids id = {blockIdx,                           \
                    {gridDim.x, gridDim.y, gridDim.z},  \
                    blockDim.x,                         \
                    (ushort)threadIdx.x,                \
                    (ushort)(threadIdx.x & 31u),        \
                    (ushort)(threadIdx.x >> 5)};        \
    name##_body(a, sm, id);                             \
  }

WAITING(attention_merge, AttentionFewParams, AttentionMergeShared, 256)
WAITING(choose_stats, VocabularyParams, VocabularyShared, 256)
WAITING(choose_rows, ChooseParams, ChooseShared, 256)
