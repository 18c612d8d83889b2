// head_chunks.cc for Hopper: the product as in linear_int8.cu.
// Grid: x chunks; groups of 256 threads, two of which a multiprocessor holds, so that nearly all
// chunks of the vocabulary are under way together. Warp w of a group has every eighth quad of the
// chunk. Traffic: lm_head once, logits out, and in again from cache.
#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/kernels/head_chunks_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/int8_rows.h"
#include "backend/gpu/cuda/kernels/linear_quads.h"
#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/vocabulary_chunk.h"

KERNEL_CONST uint kHeadWarps = 8;

template <uint kSteps>
FN void head_int8(const HeadChunksParams& a) {
  const uint kStages = 2;  // cuda/lowering.cc has it too.
  __shared__ float squares[8 * kRowWarps], parts[4][32];
  const Ids id = {blockIdx,
                  {gridDim.x, gridDim.y, gridDim.z},
                  kHeadWarps * 32,
                  (ushort)threadIdx.x,
                  (ushort)(threadIdx.x % 32),
                  (ushort)(threadIdx.x / 32)};
  const LinearParams& l = a.linear;
  const QuadShape shape = quad_shape(l.cols);
  const uint bytes = quad_bytes(shape), x_bytes = shape.runs * kRunBytes;
  uchar* ring = group_memory + id.simd * kStages * bytes;
  uchar* xs = group_memory + kHeadWarps * kStages * bytes;
  const uint begin = blockIdx.x * a.chunk, end = u_min(begin + a.chunk, a.vocab_used);
  const uint quads = (end + 3) / 4, first = begin / 4 + id.simd;
  UNROLL for (uint s = 0; s < kStages; s++) {
    const uint quad = first + s * kHeadWarps;
    if (quad < quads) fetch_quad<kSteps>(l, shape, ring + s * bytes, linear_quad(l, quad), id.lane);
    copies_commit();
  }
  float norm[8];
  load_norm(l.norm, l.cols, norm);
  const uint n = linear_n_rows(l);
  next_may_start();
  wait_for_inputs();
  stage_rows(l, norm, n, xs, x_bytes, squares);
  group_barrier();
  const float factor = norm_factor(squares, l.cols, l.eps, id.lane);
  uint slot = 0;
  for (uint quad = first; quad < quads; quad += kHeadWarps) {
    copies_wait_for_groups<kStages - 1>();
    lanes_barrier();
    uchar* at = ring + slot * bytes;
    finish_quad<kSteps>(l, shape, at, linear_quad(l, quad), n, xs, x_bytes, squares, factor,
                        id.lane);
    lanes_barrier();
    const uint next = quad + kStages * kHeadWarps;
    if (next < quads) fetch_quad<kSteps>(l, shape, at, linear_quad(l, next), id.lane);
    copies_commit();
    slot = slot + 1 == kStages ? 0 : slot + 1;
  }
  group_barrier();
  for (uint t = 0; t < n; t++) {
    vocabulary_chunk(l.parts[0].y + (ulong)t * l.parts[0].rows, begin, end, 1.0f,
                     a.chunks + t * kVocabularyChunks + blockIdx.x, parts, id);
    group_barrier();
  }
}

CUDA_KERNEL(head_int8_1, HeadChunksParams, 256, 2) {
  head_int8<1>(a);
}
CUDA_KERNEL(head_int8_2, HeadChunksParams, 256, 2) {
  head_int8<2>(a);
}
