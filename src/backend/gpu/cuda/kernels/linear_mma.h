// A product of few rows of activations on the matrix units, and what becomes of its sums. Included
// after dialect.h and stage.h.
// Grid: x as many groups as multiprocessors, or quads of weight rows where those are fewer; 512
// threads. Quad j of group b is quad b + j groups of the launch, so that a small product spreads
// over all multiprocessors. A set of as many warps as there are parts of 256 columns has kTiles
// tiles of four quads. A thread finishes a row of the group's. Shared memory: the quads, then the
// rows of x. Traffic: the matrices once for all rows of x; x once a group, from cache.
#pragma once

#include "backend/gpu/cuda/kernels/half_tiles.h"
#include "backend/gpu/cuda/kernels/linear_mma_params.h"
#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/linear_rows.h"

KERNEL_CONST uint kAskingWarps = 12;  // The last ones.

FN uint mma_quads(const LinearParams& a) {
  uint n = 0;
  UNROLL for (uint p = 0; p < 4; p++) n += (a.parts[p].rows + 3) / 4;
  return n;
}
// The group's quad j: its part, its first row there, and how many it has.
struct MmaQuad {
  uint part, row, n;
};
FN MmaQuad mma_quad(const LinearParams& a, uint j) {
  uint quad = blockIdx.x + gridDim.x * j;
  const uint part = linear_part(a, 4, quad);
  return {part, quad * 4, u_min(a.parts[part].rows - quad * 4, 4)};
}
// On its way, by one warp.
template <uint kCols, uint kBits>
FN void fetch_mma_quad(const LinearParams& a, const QuadPlace& to, uint j, ulong* arrival,
                       uint lane) {
  const MmaQuad q = mma_quad(a, j);
  const LinearPart& m = a.parts[q.part];
  copy_quad<kCols, kBits>(to, j, 0, {m.codes, m.scales, m.biases}, q.row, q.n, arrival, lane);
}
// Of all the group's quads, of which the last alone can have fewer rows than four.
template <uint kCols, uint kBits>
FN uint mma_copied_bytes(const LinearParams& a, uint n_quads) {
  return (n_quads - 1) * copied_bytes<kCols, kBits>(4) +
         copied_bytes<kCols, kBits>(mma_quad(a, n_quads - 1).n);
}
// A row of the launch's weights, in its part.
struct MmaRow {
  uint part, row;
  bool exists;
};
FN MmaRow mma_row(const LinearParams& a, uint row) {
  const MmaQuad q = mma_quad(a, row / 4);
  return {q.part, q.row + row % 4, row % 4 < q.n};
}

// Finish: start(row) before the inputs are there, inputs_there(), then for each row t of x
// before_sum(t) and finish(t, sum), all by the thread that has the row.
// kSets: of warps; the others only help to bring x. No more of them than have parts.
template <uint kCols, uint kBits, uint kSets, uint kTiles, uint kInput, class Finish>
FN void linear_mma(const LinearMmaParams& p, Finish& finish) {
  constexpr bool kNorm = kInput == kNormInput;
  const LinearParams& a = p.linear;
  constexpr uint kParts = kCols / 256, kSetQuads = 4 * kTiles;
  static_assert(kSets * kParts <= kTileWarps, "a warp has one part");
  __shared__ ulong arrival;
  __shared__ float squares[8][8], sums[kTileWarps][kTiles * 16];
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint n_quads = (mma_quads(a) - blockIdx.x + gridDim.x - 1) / gridDim.x;
  const uint first = warp / kParts * kSetQuads, end = u_min(first + kSetQuads, n_quads);
  const QuadPlace quads = quad_place<kCols, kBits>(group_memory, kSets * kSetQuads);
  uchar* xs = group_memory + kSets * kSetQuads * Quads<kCols, kBits>::kBytes;
  if (threadIdx.x == 0) {
    arrival_init(&arrival, 1);
    arrival_expect(&arrival, mma_copied_bytes<kCols, kBits>(a, n_quads));
  }
  group_barrier();
  float norm[8];
  if (kNorm) load_norm_weights(a.norm, kCols, norm);
  const uint n = linear_n_rows(a);
  // What finishing needs comes before the flood of weights, by the warps that do not ask for these.
  const uint mine = threadIdx.x;  // The row that this thread finishes.
  bool finishes = mine < n_quads * 4;
  if (finishes) {
    const MmaRow row = mma_row(a, mine);
    finishes = row.exists;
    if (finishes) finish.start(row);
  }
  if (warp >= kTileWarps - kAskingWarps) {
    for (uint j = warp + kAskingWarps - kTileWarps; j < n_quads; j += kAskingWarps)
      fetch_mma_quad<kCols, kBits>(a, quads, j, &arrival, lane);
  }
  if (!kNorm) next_may_start();
  wait_for_inputs();
  if (finishes) finish.inputs_there();
  for (uint t = 0; t < n; t++) {
    const TileScaling scaling = {norm, squares[t], p.head_squares + t * (kCols / 128) * 4,
                                 p.head_eps};
    store_tile_row<kInput, kBits>(tile_row<kBits>(xs + t * tile_row_bytes<kBits>(kCols), kCols),
                                  a.x + (ulong)linear_row(a, t) * kCols, kCols, scaling);
  }
  // Of the wide products no sooner: what the next launch asks for would stand in the way of x.
  if (kNorm) next_may_start();
  group_barrier();
  arrival_wait(&arrival);
  ROLLED for (uint t = 0; t < n; t++) {
    if (finishes) finish.before_sum(t);
    part_sums<kCols, 2, kBits>(quads, first, end, warp % kParts,
                               tile_row<kBits>(xs + t * tile_row_bytes<kBits>(kCols), kCols), 1.0f,
                               lane, sums[warp]);
    group_barrier();
    if (finishes) {
      const float* from = &sums[mine / (kTiles * 16) * kParts][mine % (kTiles * 16)];
      const float sum = row_sum<kParts>(from, kTiles * 16);
      finish.finish(t, kNorm ? sum * tile_norm_factor<kCols>(squares[t], a.eps) : sum);
    }
    if (t + 1 < n) group_barrier();
  }
}
