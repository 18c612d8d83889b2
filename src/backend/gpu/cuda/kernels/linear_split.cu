// linear_int8.cu where weight rows are few and long: four warps share a quad, a quarter of the
// columns each, so that more of a multiprocessor's warps have something to do.
// Grid: x as many groups as multiprocessors, or quads where those are fewer; 768 threads. Quad q is
// the four warps q / groups % 6 of group q % groups.
// Traffic: the matrices once for all rows of x; x once a group, from cache.
#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/kernels/linear_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/int8_rows.h"
#include "backend/gpu/cuda/kernels/linear_quads.h"
#include "backend/gpu/cuda/kernels/stage.h"

KERNEL_CONST uint kSplit = 4;

// The warp's columns of a quad; shape: of those columns.
FN void fetch_split(const LinearParams& a, const QuadShape& shape, uchar* to, const LinearQuad& q,
                    uint split, uint lane) {
  const LinearPart& part = a.parts[q.part];
  const ulong first = (ulong)q.row0 * kSplit + split;
  const uchar* codes = (const uchar*)part.codes + first * shape.row_bytes + lane * 16;
  UNROLL for (uint r = 0; r < kQuadRows; r++) {
    if (r < q.n) copy16(to + r * shape.row_bytes + lane * 16, codes + r * kSplit * shape.row_bytes);
  }
  const uint pieces = shape.side_bytes / 8, r = lane / pieces, piece = lane % pieces * 8;
  if (r < q.n) {
    const ulong from = (first + r * kSplit) * shape.side_bytes + piece;
    uchar* sides = to + kQuadRows * shape.row_bytes + r * shape.side_bytes + piece;
    copy8(sides, (const uchar*)part.scales + from);
    copy8(sides + kQuadRows * shape.side_bytes, (const uchar*)part.biases + from);
  }
}

template <uint kBits, bool kNorm>
FN void linear_split(const LinearParams& a) {
  __shared__ float squares[8 * kRowWarps], parts[8][kFewWarps][kQuadRows];
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32, split = warp % kSplit;
  const QuadShape shape = quad_shape<kBits>(a.cols / kSplit);
  const uint x_bytes = kSplit * shape.runs * run_bytes<kBits>();
  uchar* place = group_memory + warp * quad_bytes(shape);
  uchar* xs = group_memory + kFewWarps * quad_bytes(shape);
  const uint quads = linear_quads(a), stride = gridDim.x * (kFewWarps / kSplit);
  uint quad = blockIdx.x + gridDim.x * (warp / kSplit);
  if (quad < quads) fetch_split(a, shape, place, linear_quad(a, quad), split, lane);
  float norm[8];
  if (kNorm) load_norm(a.norm, a.cols, norm);
  next_may_start();
  wait_for_inputs();
  const uint n = linear_n_rows(a), r = lane / 8;
  stage_rows<kBits, kNorm>(a, norm, n, xs, x_bytes, squares);
  for (uint first = 0; first < quads; first += stride, quad += stride) {
    const LinearQuad q = linear_quad(a, u_min(quad, quads - 1));
    const bool writes = quad < quads && split == 0 && lane % 8 == 0 && r < q.n;
    float* y = a.parts[q.part].y + q.row0 + r;
    const uint height = a.parts[q.part].rows;
    const float old = !kNorm && writes ? load_fresh(y) : 0.0f;
    copies_wait();
    group_barrier();
    for (uint t = 0; t < n; t++) {
      float sums[kQuadRows];
      quad_sums<kBits, 1>(place, shape, xs + t * x_bytes + split * shape.runs * run_bytes<kBits>(),
                          lane, sums);
      const float sum = sum_quad(sums, lane);
      if (lane % 8 == 0) parts[t][warp][r] = sum;
    }
    if (first + stride < quads) {
      lanes_barrier();
      if (quad + stride < quads)
        fetch_split(a, shape, place, linear_quad(a, quad + stride), split, lane);
    }
    group_barrier();
    for (uint t = 0; t < n; t++) {
      const float factor = kNorm ? norm_factor(squares + t * kRowWarps, a.cols, a.eps, lane) : 1.0f;
      if (writes) {
        float* at = y + (ulong)t * height;
        const float sum = (parts[t][warp][r] + parts[t][warp + 1][r]) +
                          (parts[t][warp + 2][r] + parts[t][warp + 3][r]);
        *at = kNorm ? sum * factor : (t == 0 ? old : load_fresh(at)) + sum;
      }
    }
  }
}

CUDA_KERNEL(linear_split_norm_8, LinearParams, 768, 2) {
  linear_split<8, true>(a);
}
CUDA_KERNEL(linear_split_add_4, LinearParams, 768, 2) {
  linear_split<4, false>(a);
}
