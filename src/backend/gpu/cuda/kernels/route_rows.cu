// route_choose.cc and experts_sort.cc of many rows for Hopper. x = rmsnorm(h) is not made here:
// narrow.cu has left it as bf16 for the router, and the experts take it from there.
#include "backend/gpu/kernels/experts_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/choose_experts.h"
#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/pass.h"

// Grid: x ceil(T / 8); a warp a row. Traffic: the logits once.
CUDA_KERNEL(route_rows, RouteChooseParams, 256, 4) {
  __shared__ Routing routings[8];
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = blockIdx.x * 8 + warp;
  if (t >= pass_rows(a.control)) return;  // The same for a warp.
  Routing& routing = routings[warp];
  choose_experts(a, t, routing, lane, true);
  lanes_barrier();
  if (lane < a.n_chosen) {
    a.experts[t * a.n_chosen + lane] = (int)routing.ids[lane];
    a.weights[t * a.n_chosen + lane] = routing.weights[lane];
  }
  if (lane == a.n_chosen) a.shared_weight[t] = routing.weights[lane];
}

// Grid: x experts; 256 threads: each warp an eighth of the choices, 32 at a time in their order.
// What experts_sort leaves. Traffic: the choices twice per expert, from cache, 128-byte reads.
CUDA_KERNEL(experts_order, ExpertsSortParams, 256, 4) {
  __shared__ uint equals[8], lesses[8];
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32, e = blockIdx.x;
  const uint n = pass_rows(a.control) * a.n_chosen, each = (n + 255) / 256 * 32;
  const uint begin = u_min(warp * each, n), end = u_min(begin + each, n);
  uint equal = 0, less = 0;
#pragma unroll 8
  for (uint i = begin + lane; i < end; i += 32) {
    const uint chosen = (uint)a.experts[i];
    equal += chosen == e ? 1u : 0u;
    less += chosen < e ? 1u : 0u;
  }
  equal = lanes_sum(equal);
  less = lanes_sum(less);
  if (lane == 0) {
    equals[warp] = equal;
    lesses[warp] = less;
  }
  group_barrier();
  uint count = 0, first = 0, to = 0;
  UNROLL for (uint w = 0; w < 8; w++) {
    to += w < warp ? equals[w] : 0u;
    count += equals[w];
    first += lesses[w];
  }
  to += first;
#pragma unroll 8
  for (uint i = begin; i < end; i += 32) {
    const bool mine = i + lane < end && (uint)a.experts[i + lane] == e;
    const uint all = __ballot_sync(0xffffffffu, mine);
    if (mine) a.slots[to + __popc(all & ((1u << lane) - 1))] = i + lane;
    to += __popc(all);
  }
  const uint size = a.block_rows, block0 = first / size + e,
             block1 = (first + count) / size + e + 1;
  for (uint b = block0 + threadIdx.x; b < block1; b += 256) {
    const uint done = u_min((b - block0) * size, count);
    a.blocks[3 * b] = e;
    a.blocks[3 * b + 1] = first + done;
    a.blocks[3 * b + 2] = u_min(count - done, size);
  }
}
