// linear_few.cc for Hopper where the weight rows are more than linear_mma.cu takes, which is the
// vocabulary's: whole numbers (int8_rows.h), weights in flight before the inputs are there. Grid: x
// as many groups as multiprocessors; 768 threads. Quad q of four weight rows is warp q / groups %
// 24 of group q % groups. Shared memory: a quad a warp, then the rows of x. Traffic: the matrices
// once for all rows of x; x once a group, from cache.
#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/kernels/linear_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/int8_rows.h"
#include "backend/gpu/cuda/kernels/linear_quads.h"
#include "backend/gpu/cuda/kernels/stage.h"

template <uint kSteps>
FN void linear_int8(const LinearParams& a) {
  __shared__ float squares[8 * kRowWarps];
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const QuadShape shape = quad_shape(a.cols);
  const uint bytes = quad_bytes(shape), x_bytes = shape.runs * kRunBytes;
  uchar* place = group_memory + warp * bytes;
  uchar* xs = group_memory + kFewWarps * bytes;
  const uint quads = linear_quads(a), stride = gridDim.x * kFewWarps;
  uint quad = blockIdx.x + gridDim.x * warp;
  if (quad < quads) fetch_quad<kSteps>(a, shape, place, linear_quad(a, quad), lane);
  float norm[8];
  load_norm(a.norm, a.cols, norm);
  const uint n = linear_n_rows(a);
  next_may_start();
  wait_for_inputs();
  stage_rows(a, norm, n, xs, x_bytes, squares);
  group_barrier();
  const float factor = norm_factor(squares, a.cols, a.eps, lane);
  for (; quad < quads; quad += stride) {
    copies_wait();
    lanes_barrier();
    finish_quad<kSteps>(a, shape, place, linear_quad(a, quad), n, xs, x_bytes, squares, factor,
                        lane);
    lanes_barrier();
    if (quad + stride < quads)
      fetch_quad<kSteps>(a, shape, place, linear_quad(a, quad + stride), lane);
  }
}

CUDA_KERNEL(linear_int8_norm_1, LinearParams, 768, 2) {
  linear_int8<1>(a);
}
CUDA_KERNEL(linear_int8_norm_2, LinearParams, 768, 2) {
  linear_int8<2>(a);
}
