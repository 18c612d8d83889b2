// linear_few.cc for Hopper: whole numbers (int8_rows.h), weights in flight before the inputs are
// there. Grid: x as many groups as multiprocessors, or quads where those are fewer; groups of 768
// threads. Quad q of four weight rows is warp q / groups % 24 of group q % groups, so that a small
// product spreads over all multiprocessors, and the widest has a quad a warp. Shared memory: a quad
// a warp, then the rows of x. Traffic: the matrices once for all rows of x; x once a group, from
// cache.
#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/kernels/linear_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/int8_rows.h"
#include "backend/gpu/cuda/kernels/linear_quads.h"
#include "backend/gpu/cuda/kernels/stage.h"

template <uint kBits, uint kSteps, bool kNorm>
FN void linear_int8(const LinearParams& a) {
  __shared__ float squares[8 * kRowWarps];
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const QuadShape shape = quad_shape<kBits>(a.cols);
  const uint bytes = quad_bytes(shape), x_bytes = shape.runs * run_bytes<kBits>();
  uchar* place = group_memory + warp * bytes;
  uchar* xs = group_memory + kFewWarps * bytes;
  const uint quads = linear_quads(a), stride = gridDim.x * kFewWarps;
  uint quad = blockIdx.x + gridDim.x * warp;
  if (quad < quads) fetch_quad<kSteps>(a, shape, place, linear_quad(a, quad), lane);
  float norm[8];
  if (kNorm) load_norm(a.norm, a.cols, norm);
  next_may_start();
  wait_for_inputs();
  const uint n = linear_n_rows(a);
  stage_rows<kBits, kNorm>(a, norm, n, xs, x_bytes, squares);
  group_barrier();
  const float factor = kNorm ? norm_factor(squares, a.cols, a.eps, lane) : 1.0f;
  for (; quad < quads; quad += stride) {
    copies_wait();
    lanes_barrier();
    finish_quad<kBits, kSteps, kNorm>(a, shape, place, linear_quad(a, quad), n, xs, x_bytes,
                                      squares, factor, lane);
    lanes_barrier();
    if (quad + stride < quads)
      fetch_quad<kSteps>(a, shape, place, linear_quad(a, quad + stride), lane);
  }
}

CUDA_KERNEL(linear_int8_norm_4_1, LinearParams, 768, 2) {
  linear_int8<4, 1, true>(a);
}
CUDA_KERNEL(linear_int8_norm_4_2, LinearParams, 768, 2) {
  linear_int8<4, 2, true>(a);
}
CUDA_KERNEL(linear_int8_norm_8_1, LinearParams, 768, 2) {
  linear_int8<8, 1, true>(a);
}
CUDA_KERNEL(linear_int8_add_4_1, LinearParams, 768, 2) {
  linear_int8<4, 1, false>(a);
}
CUDA_KERNEL(linear_int8_add_4_2, LinearParams, 768, 2) {
  linear_int8<4, 2, false>(a);
}
