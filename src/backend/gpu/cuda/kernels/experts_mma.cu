// route_choose.cc and experts_few.cc for Hopper, in two launches instead of three: choosing costs a
// warp less than a launch, so one warp of every group of both does it, from the router's logits.
// Products on the matrix units (half_tiles.h). The matrices of the shared expert are asked for
// before anything is known, and down's while up still runs: up lets its successor start when it has
// chosen, since the logits are there then. Groups of 512 threads; grid: x groups, y rows.
#include "backend/gpu/cuda/kernels/route_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/choose_experts.h"
#include "backend/gpu/cuda/kernels/half_tiles.h"
#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/pass.h"

KERNEL_CONST uint kChooser = 15;  // The warp; others have the activations.

FN QuadMatrix quad_matrix(const ExpertMatrix& m) {
  return {m.codes, m.scales, m.biases};
}
// Of n things, those that this group of the launch has: every groups-th.
FN uint share_of(uint n) {
  return blockIdx.x < n ? (n - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
}

// ---- up: a quad is two rows of gate and the same two of up; the shared expert's come first.
struct UpQuad {
  uint place, row;
};
FN UpQuad up_quad(const ExpertsUpParams& a, uint n_shared, uint quad) {
  if (quad < n_shared) return {a.n_chosen, (blockIdx.x + gridDim.x * quad) * 2};
  const uint index = blockIdx.x + gridDim.x * (quad - n_shared), each = a.width / 2;
  return {index / each, index % each * 2};
}
// expert: of the chosen ones; by one warp.
template <uint kCols>
FN void fetch_up_quad(const ExpertsUpParams& a, const QuadPlace& to, uint quad, const UpQuad& q,
                      uint expert, ulong* arrival, uint lane) {
  const bool shared = q.place == a.n_chosen, up = lane >= 3;
  const ExpertMatrix& m = shared ? (up ? a.shared_up : a.shared_gate) : (up ? a.up : a.gate);
  const ulong row = (shared ? 0 : (ulong)expert * a.width) + q.row;
  copy_quad<kCols, 4>(to, quad, up ? 2 : 0, quad_matrix(m), row, 2, arrival, up ? lane - 3 : lane);
}

template <uint kCols, uint kTiles>
FN void experts_mma_up(const ExpertsUpMmaParams& p) {
  constexpr uint kParts = kCols / 256, kSets = kTileWarps / kParts, kSetQuads = 4 * kTiles;
  const ExpertsUpParams& a = p.up;
  __shared__ ulong arrival;
  __shared__ Routing routing;
  __shared__ float squares[8], sums[kTileWarps][kTiles * 16];
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = blockIdx.y;
  const QuadPlace quads = quad_place<kCols>(group_memory, kSets * kSetQuads);
  const TileRow x = tile_row<4>(group_memory + kSets * kSetQuads * Quads<kCols>::kBytes, kCols);
  const uint n_shared = share_of(a.shared_width / 2),
             n_quads = n_shared + share_of(a.n_chosen * (a.width / 2));
  const uint n = pass_rows(a.control);
  if (threadIdx.x == 0) {
    arrival_init(&arrival, 2);
    arrival_expect(&arrival, t < n ? n_shared * Quads<kCols>::kCopied : 0);
  }
  group_barrier();
  if (t < n) {
    for (uint quad = warp; quad < n_shared; quad += kTileWarps)
      fetch_up_quad<kCols>(a, quads, quad, up_quad(a, n_shared, quad), 0, &arrival, lane);
  }
  const UpQuad fetched = up_quad(a, n_shared, n_shared + warp);  // The first of the chosen ones.
  float norm[8];
  load_norm_weights(p.route.norm, kCols, norm);
  wait_for_inputs();
  if (t >= n) return;
  if (warp == kChooser) {
    choose_experts(p.route, t, routing, lane, false);
  } else {
    store_tile_row<kNormInput, 4>(x, p.route.h + (ulong)t * kCols, kCols,
                                  {norm, squares, nullptr, 0.0f});
  }
  group_barrier();
  next_may_start();  // The logits are there; no sooner, since what it asks for would stand in the
                     // way.
  if (threadIdx.x == 0) arrival_expect(&arrival, (n_quads - n_shared) * Quads<kCols>::kCopied);
  for (uint quad = n_shared + warp; quad < n_quads; quad += kTileWarps) {
    const UpQuad q = quad == n_shared + warp ? fetched : up_quad(a, n_shared, quad);
    fetch_up_quad<kCols>(a, quads, quad, q, routing.ids[q.place], &arrival, lane);
  }
  const uint quad = threadIdx.x / 2, row = quad * 4 + threadIdx.x % 2;  // What it finishes.
  const UpQuad mine = up_quad(a, n_shared, quad);
  float* act = mine.place == a.n_chosen ? a.shared_act + (ulong)t * a.shared_width
                                        : a.act + ((ulong)t * a.n_chosen + mine.place) * a.width;
  act += mine.row + threadIdx.x % 2;
  arrival_wait(&arrival);
  const uint first = warp / kParts * kSetQuads;
  part_sums<kCols, 2, 4>(quads, first, u_min(first + kSetQuads, n_quads), warp % kParts, x, 1.0f,
                         lane, sums[warp]);
  group_barrier();
  if (quad < n_quads) {
    const float factor = tile_norm_factor<kCols>(squares, p.route.eps);
    const float* from = &sums[row / (kTiles * 16) * kParts][row % (kTiles * 16)];
    const float gate = row_sum<kParts>(from, kTiles * 16) * factor,
                up = row_sum<kParts>(from + 2, kTiles * 16) * factor;
    *act = m_silu(gate) * up;
  }
}

CUDA_KERNEL(experts_mma_up_256, ExpertsUpMmaParams, 512, 2) {
  experts_mma_up<256, 1>(a);
}
CUDA_KERNEL(experts_mma_up_2048, ExpertsUpMmaParams, 512, 2) {
  experts_mma_up<2048, 3>(a);
}

// ---- down: the group has whole quads of outputs, up to four, so that experts are added in the
// order of the list: a warp has the group's rows of one expert and one part of its columns.
KERNEL_CONST uint kDownQuads = 4, kDownMostParts = 34;

// What up left of row t, all places, in shared memory, in two turns whose loads overlap.
template <uint kWidth>
FN void store_act(const ExpertsDownParams& a, const TileRow& to, uint t) {
  const uint routed = a.n_chosen * kWidth, all = routed + kWidth, kTurn = kTileThreads * 8;
  float v[2][8];
  UNROLL for (uint turn = 0; turn < 2; turn++) {
    const uint i = turn * kTurn + threadIdx.x * 8;
    if (i < all)
      load_columns(i >= routed ? a.shared_act + (ulong)t * kWidth + (i - routed)
                               : a.act + (ulong)t * routed + i,
                   v[turn]);
  }
  UNROLL for (uint turn = 0; turn < 2; turn++) {
    const uint first = turn * kTurn + threadIdx.x / 32 * 256;  // Behind the last: anything.
    if (first < all) store_columns<4>(to, first + threadIdx.x % 32 * 8, v[turn]);
  }
}

template <uint kWidth>
FN void experts_mma_down(const ExpertsDownMmaParams& p) {
  constexpr uint kHalves = kWidth == 128 ? 1 : 2, kEach = kWidth / (128 * kHalves);
  const ExpertsDownParams& a = p.down;
  __shared__ ulong arrival;
  __shared__ Routing routing;
  __shared__ float sums[kDownMostParts][kDownQuads * 4];
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = blockIdx.y;
  const uint places = a.n_chosen + 1, n_parts = places * kEach, all = a.hidden / 4;
  const uint quad0 = blockIdx.x * all / gridDim.x,
             n_quads = (blockIdx.x + 1) * all / gridDim.x - quad0;
  const QuadPlace quads = quad_place<kWidth>(group_memory, places * kDownQuads);
  const TileRow x = tile_row<4>(group_memory + places * kDownQuads * Quads<kWidth>::kBytes,
                                (places * kWidth + 255) / 256 * 256);
  const bool here = t < pass_rows(a.control);
  if (threadIdx.x == 0) {
    arrival_init(&arrival, 1);
    arrival_expect(&arrival, here ? places * n_quads * Quads<kWidth>::kCopied : 0);
  }
  if (here && warp == 0) choose_experts(p.route, t, routing, lane, false);
  group_barrier();
  if (here) {
    for (uint i = warp; i < places * n_quads; i += kTileWarps) {
      const uint place = i / n_quads, quad = i % n_quads;
      const bool shared = place == a.n_chosen;
      const ulong row = (shared ? 0 : (ulong)routing.ids[place] * a.hidden) + (quad0 + quad) * 4;
      copy_quad<kWidth, 4>(quads, place * kDownQuads + quad, 0,
                           quad_matrix(shared ? a.shared_down : a.down), row, 4, &arrival, lane);
    }
    if (warp == kChooser)
      choose_weights(load_fresh(p.route.shared_weight + t), a.n_chosen, routing, lane);
  }
  wait_for_inputs();
  if (!here) return;
  const bool finishes = threadIdx.x < n_quads * 4;
  float* h = a.h + (ulong)t * a.hidden + quad0 * 4 + threadIdx.x;
  const float old = finishes ? load_fresh(h) : 0.0f;
  store_act<kWidth>(a, x, t);
  next_may_start();  // No sooner: what the next launch asks for would stand in its way.
  group_barrier();
  arrival_wait(&arrival);
  for (uint i = warp; i < n_parts; i += kTileWarps) {
    const uint place = i / kEach;
    const TileRow part = {x.planes + place * (kWidth / 32 * run_bytes<4>()),
                          x.groups + place * (kWidth / 64)};
    const uint first = place * kDownQuads;
    part_sums<kWidth, kHalves, 4>(quads, first, first + n_quads, i % kEach, part,
                                  routing.weights[place], lane, sums[i]);
  }
  group_barrier();
  if (finishes) {
    float sum = 0.0f;
    _Pragma("unroll 6") for (uint i = 0; i < n_parts; i++) sum += sums[i][threadIdx.x];
    *h = old + sum;
  }
}

CUDA_KERNEL(experts_mma_down_128, ExpertsDownMmaParams, 512, 2) {
  experts_mma_down<128>(a);
}
CUDA_KERNEL(experts_mma_down_512, ExpertsDownMmaParams, 512, 2) {
  experts_mma_down<512>(a);
}
