// linear_few.cc for Hopper on its matrix units (linear_mma.h), weights in flight before the inputs
// are there. Kinds: y = x W^T of a normed x; y += x W^T of x as it is, or over the root mean square
// of its heads, as delta_step.cu leaves it.
#include "backend/gpu/cuda/kernels/linear_mma_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/linear_mma.h"

template <bool kAdds>
struct MmaOutput {
  const LinearParams& a;
  float* y;
  uint height;
  float old;

  __device__ __forceinline__ void start(const MmaRow& r) {
    y = a.parts[r.part].y + r.row;
    height = a.parts[r.part].rows;
  }
  __device__ __forceinline__ void inputs_there() {}
  __device__ __forceinline__ void before_sum(uint t) {
    if (kAdds) old = load_fresh(y + (ulong)t * height);
  }
  __device__ __forceinline__ void finish(uint t, float sum) {
    y[(ulong)t * height] = kAdds ? old + sum : sum;
  }
};

template <uint kCols, uint kBits, uint kSets, uint kTiles, uint kInput>
FN void linear_mma_to_memory(const LinearMmaParams& p) {
  MmaOutput<kInput != kNormInput> output = {p.linear, nullptr, 0, 0.0f};
  linear_mma<kCols, kBits, kSets, kTiles, kInput>(p, output);
}

CUDA_KERNEL(linear_mma_norm_256, LinearMmaParams, 512, 2) {
  linear_mma_to_memory<256, 4, 16, 1, kNormInput>(a);
}
CUDA_KERNEL(linear_mma_norm_2048, LinearMmaParams, 512, 2) {
  linear_mma_to_memory<2048, 4, 2, 3, kNormInput>(a);
}
CUDA_KERNEL(linear_mma_norm8_256, LinearMmaParams, 512, 2) {
  linear_mma_to_memory<256, 8, 1, 1, kNormInput>(a);
}
CUDA_KERNEL(linear_mma_norm8_2048, LinearMmaParams, 512, 2) {
  linear_mma_to_memory<2048, 8, 1, 1, kNormInput>(a);
}
CUDA_KERNEL(linear_mma_add_4096, LinearMmaParams, 512, 2) {
  linear_mma_to_memory<4096, 4, 1, 1, kPlainInput>(a);
}
CUDA_KERNEL(linear_mma_heads_1024, LinearMmaParams, 512, 2) {
  linear_mma_to_memory<1024, 4, 4, 1, kHeadsInput>(a);
}
CUDA_KERNEL(linear_mma_heads_4096, LinearMmaParams, 512, 2) {
  linear_mma_to_memory<4096, 4, 1, 1, kHeadsInput>(a);
}
