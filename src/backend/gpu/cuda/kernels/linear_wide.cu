// linear_tile.cc on Hopper's matrix units (wide_tile.h); narrow.cu has made the activations.
// Grid: x ceil(T / 128), y sum over the parts of ceil(rows / 128); 256 threads. Neighbours share
// weights. Traffic: the matrices once per 128 rows of x, x once per 128 weight rows, from cache.
#include "backend/gpu/cuda/kernels/wide_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/cuda/kernels/wide_mma.h"
#include "backend/gpu/cuda/kernels/wide_tile.h"
#include "backend/gpu/kernels/linear_rows.h"

template <bool kNorm>
FN void linear_wide(const LinearWideParams& p) {
  const LinearParams& a = p.linear;
  const uint n = linear_n_rows(a), t0 = blockIdx.x * 128;
  if (t0 >= n) return;
  __shared__ uint rows[128];
  const uint tid = threadIdx.x;
  uint block = blockIdx.y;
  const LinearPart& part = a.parts[linear_part(a, kWideRows, block)];
  if (tid < 128) rows[tid] = u_min(t0 + tid, n - 1);
  group_barrier();
  const uint row = block * kWideRows + tid / 32 * 16 + tid % 32 / 4;
  WideWeights w;
  UNROLL for (uint i = 0; i < 2; i++) {
    wide_row(w, i, part.codes, part.scales, part.biases, u_min(row + 8 * i, part.rows - 1), a.cols);
  }
  float sums[64];
  wide_product<128>(sums, w, p.x, rows, a.cols, wide_area());
  UNROLL for (uint j = 0; j < 64; j++) {
    const uint t = t0 + j / 4 * 8 + tid % 4 * 2 + j % 2, r = row + j % 4 / 2 * 8;
    if (t < n && r < part.rows) {
      float* y = part.y + (ulong)t * part.stride + r;
      *y = kNorm ? sums[j] : *y + sums[j];
    }
  }
}

CUDA_KERNEL(linear_wide_norm, LinearWideParams, 256, 2) {
  linear_wide<true>(a);
}
CUDA_KERNEL(linear_wide_add, LinearWideParams, 256, 2) {
  linear_wide<false>(a);
}
