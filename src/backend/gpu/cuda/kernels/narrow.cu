// Rows of activations as the wide tiles take them: normed, bf16, columns in their order.
// Grid: x rows; 256 threads, 8 columns each and turn.
// Traffic: x in (twice with a norm, the second time from cache), half of it out.
#include "backend/gpu/cuda/kernels/wide_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/floats.h"
#include "backend/gpu/kernels/pass.h"

FN uint narrow_pair(float lo, float hi) {
  uint pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
}

CUDA_KERNEL(narrow, NarrowParams, 256, 4) {
  __shared__ float parts[8];
  if (blockIdx.x >= pass_rows(a.control)) return;
  const uint tid = threadIdx.x;
  const float* x = a.x + (ulong)blockIdx.x * a.cols;
  float factor = 1.0f;
  if (a.norm != nullptr) {
    float square = 0.0f;
    for (uint i = tid * 4; i < a.cols; i += 1024) {
      float v[4];
      load_floats(x + i, v);
      UNROLL for (uint e = 0; e < 4; e++) square = m_fma(v[e], v[e], square);
    }
    square = lanes_sum(square);
    if (tid % 32 == 0) parts[tid / 32] = square;
    group_barrier();
    square = 0.0f;
    UNROLL for (uint i = 0; i < 8; i++) square += parts[i];
    factor = m_rsqrt(square / (float)a.cols + a.eps);
  }
  for (uint i = tid * 8; i < a.cols; i += 2048) {
    float v[8], norm[8];
    load_floats(x + i, v);
    load_floats(x + i + 4, v + 4);
    if (a.norm != nullptr) {
      load_floats(a.norm + i, norm);
      load_floats(a.norm + i + 4, norm + 4);
      UNROLL for (uint e = 0; e < 8; e++) v[e] = v[e] * factor * norm[e];
    }
    const uint t = i / 32 % 4, word = i / 8 % 4;
    const ulong at = (ulong)blockIdx.x * a.cols + i / 128 * 128 + 32 * word + 2 * t;
    uint pairs[4];
    UNROLL for (uint e = 0; e < 4; e++) {
      pairs[e] = narrow_pair(v[e], v[e + 4]);
      ((uint*)(a.to + at))[4 * e] = pairs[e];
    }
    if (a.rest == nullptr) continue;
    UNROLL for (uint e = 0; e < 4; e++) {
      ((uint*)(a.rest + at))[4 * e] =
          narrow_pair(v[e] - bf16_lo(pairs[e]), v[e + 4] - bf16_hi(pairs[e]));
    }
  }
}
