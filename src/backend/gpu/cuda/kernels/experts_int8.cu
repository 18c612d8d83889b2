// route_choose.cc and experts_few.cc for Hopper, in two launches instead of three: choosing costs a
// warp less than a launch, so one warp of every group of
// both does it, from the router's logits. Products
// and copies as in linear_int8.cu. Of an expert nothing can be fetched before it is known; the down
// matrices are, while up still runs: up lets its successor start only when the logits are there.
// Groups of 768 threads; grid: x groups, y rows.
#include "backend/gpu/cuda/kernels/route_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/choose_experts.h"
#include "backend/gpu/cuda/kernels/int8_rows.h"
#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/pass.h"

// ---- up: a pair is two rows of gate and the same two of up.
struct UpPair {
  uint place, row0;
};
FN UpPair up_pair(const ExpertsUpParams& a, uint index) {
  const uint each = a.width / 2, routed = a.n_chosen * each;
  if (index >= routed) return {a.n_chosen, (index - routed) * 2};
  return {index / each, index % each * 2};
}
template <uint kSteps>
FN void fetch_pair(const ExpertsUpParams& a, const QuadShape& shape, uchar* to,
                   const Routing& routing, const UpPair& pair, uint lane) {
  const bool shared = pair.place == a.n_chosen;
  const ulong row = (shared ? 0 : (ulong)routing.ids[pair.place] * a.width) + pair.row0;
  copy_rows<kSteps>(to, shape, shared ? a.shared_gate : a.gate, row, 0, 2, lane);
  copy_rows<kSteps>(to, shape, shared ? a.shared_up : a.up, row, 2, 2, lane);
}

template <uint kSteps>
FN void experts_int8_up(const ExpertsUpInt8Params& p) {
  const ExpertsUpParams& a = p.up;
  __shared__ Routing routing;
  __shared__ float squares[kRowWarps];
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = blockIdx.y;
  const QuadShape shape = quad_shape<4>(p.route.hidden);
  uchar* place = group_memory + warp * quad_bytes(shape);
  uchar* xs = group_memory + kFewWarps * quad_bytes(shape);
  if (threadIdx.x * 32 < p.route.hidden) fetch_to_cache(p.route.norm + threadIdx.x * 32);
  wait_for_inputs();
  next_may_start();
  if (t >= pass_rows(a.control)) return;
  if (warp == kFewWarps - 1) {
    choose_experts(p.route, t, routing, lane);
  } else {
    float norm[8];
    load_norm(p.route.norm, p.route.hidden, norm);
    store_row<4, true>(xs, p.route.h + (ulong)t * p.route.hidden, norm, p.route.hidden, squares);
  }
  group_barrier();
  const uint pairs = a.n_chosen * (a.width / 2) + a.shared_width / 2;
  const float factor = norm_factor(squares, p.route.hidden, p.route.eps, lane);
  for (uint index = blockIdx.x + gridDim.x * warp; index < pairs; index += gridDim.x * kFewWarps) {
    const UpPair pair = up_pair(a, index);
    fetch_pair<kSteps>(a, shape, place, routing, pair, lane);
    copies_wait();
    lanes_barrier();
    float sums[kQuadRows];
    quad_sums<4, kSteps>(place, shape, xs, lane, sums);
    const float sum = sum_quad(sums, lane) * factor, up = lanes_read(sum, lane + 16);
    const bool shared = pair.place == a.n_chosen;
    float* act = shared ? a.shared_act + (ulong)t * a.shared_width
                        : a.act + ((ulong)t * a.n_chosen + pair.place) * a.width;
    if (lane % 8 == 0 && lane < 16) act[pair.row0 + lane / 8] = m_silu(sum) * up;
    lanes_barrier();
  }
}

CUDA_KERNEL(experts_int8_up_1, ExpertsUpInt8Params, 768, 2) {
  experts_int8_up<1>(a);
}
CUDA_KERNEL(experts_int8_up_2, ExpertsUpInt8Params, 768, 2) {
  experts_int8_up<2>(a);
}

// ---- down: an item is four output rows of one expert, kLanes lanes a row; the group owns whole
// quads of outputs, so that experts are added in the order of the list.
KERNEL_CONST uint kDownStages = 2, kDownQuads = 4;  // cuda/lowering.cc has them too.

template <uint kLanes>
FN void fetch_item(const ExpertsDownParams& a, const QuadShape& shape, uchar* to,
                   const Routing& routing, uint quad, uint place, uint lane) {
  const bool shared = place == a.n_chosen;
  const ulong row = (shared ? 0 : (ulong)routing.ids[place] * a.hidden) + quad * 4;
  copy_rows<1>(to, shape, shared ? a.shared_down : a.down, row, 0, 4, lane);
}

// Sums of the item's four rows: lane kLanes * r of each step has row r (and r + 2).
template <uint kLanes>
FN void item_sums(const uchar* item, const QuadShape& shape, const uchar* xs, uint lane,
                  float* sums) {
  const uint kSteps = kLanes == 16 ? 2 : 1;
  const ushort* scales = (const ushort*)(item + kQuadRows * shape.row_bytes);
  const ushort* biases = scales + kQuadRows * shape.side_bytes / 2;
  const uchar* x = xs + lane % kLanes * run_bytes<4>();
  const float2 scale_sum = run_scale_sum<4>(x);
  UNROLL for (uint s = 0; s < kSteps; s++) {
    const uint run = s * 32 + lane;
    float sum = 0.0f;
    if (run < kQuadRows * kLanes) {
      const uint4 codes = *(const uint4*)(item + run * 16);
      float dot;
      run_dots<4, 1>(&codes, x, &dot);
      sum = m_fma(bf16_to_f(scales[run / 2]) * scale_sum.x, dot,
                  bf16_to_f(biases[run / 2]) * scale_sum.y);
    }
    UNROLL for (uint m = kLanes / 2; m > 0; m >>= 1) sum += lanes_xor(sum, m);
    sums[s] = sum;
  }
}

// What up left of row t, all places, in shared memory.
FN void stage_act(const ExpertsDownParams& a, uchar* xs, uint t, uint width) {
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32, places = a.n_chosen + 1;
  for (uint first = warp * 256; first < places * width; first += kFewThreads * 8) {
    const uint i = u_min(first + lane * 8, places * width - 8);  // Behind the last: it, again.
    const bool shared = i >= a.n_chosen * width;
    const float* from = shared ? a.shared_act + (ulong)t * width + (i - a.n_chosen * width)
                               : a.act + (ulong)t * a.n_chosen * width + i;
    const float4 v0 = load_fresh4(from), v1 = load_fresh4(from + 4);
    const float v[8] = {v0.x, v0.y, v0.z, v0.w, v1.x, v1.y, v1.z, v1.w};
    store_int8<4>(xs, first + lane * 8, v);
  }
}

template <uint kLanes>
FN void experts_int8_down(const ExpertsDownInt8Params& p) {
  const ExpertsDownParams& a = p.down;
  __shared__ Routing routing;
  __shared__ float parts[kDownQuads * 17][4];
  const uint warp = threadIdx.x / 32, lane = threadIdx.x % 32, tid = threadIdx.x, t = blockIdx.y;
  const uint width = kLanes * 32, places = a.n_chosen + 1;
  const QuadShape shape = quad_shape<4>(width);
  const uint bytes = quad_bytes(shape), x_bytes = kLanes * run_bytes<4>();
  uchar* ring = group_memory + warp * kDownStages * bytes;
  uchar* xs = group_memory + kFewWarps * kDownStages * bytes;
  const uint all = a.hidden / 4;
  const uint quad0 = blockIdx.x * all / gridDim.x,
             quads = (blockIdx.x + 1) * all / gridDim.x - quad0;
  const uint items = quads * places;
  const bool here = t < pass_rows(a.control);
  if (here) {
    if (warp == 0) choose_experts(p.route, t, routing, lane);
    group_barrier();
    UNROLL for (uint s = 0; s < kDownStages; s++) {
      const uint item = warp + s * kFewWarps;
      if (item < items)
        fetch_item<kLanes>(a, shape, ring + s * bytes, routing, quad0 + item / places,
                           item % places, lane);
      copies_commit();
    }
  }
  next_may_start();
  wait_for_inputs();
  if (!here) return;
  float* h = a.h + (ulong)t * a.hidden + quad0 * 4 + tid;
  const float old = tid < quads * 4 ? load_fresh(h) : 0.0f;
  stage_act(a, xs, t, width);
  group_barrier();
  uint slot = 0;
  for (uint item = warp; item < items; item += kFewWarps) {
    copies_wait_for_groups<kDownStages - 1>();
    lanes_barrier();
    uchar* at = ring + slot * bytes;
    const uint place = item % places;
    float sums[2];
    item_sums<kLanes>(at, shape, xs + place * x_bytes, lane, sums);
    if (lane % kLanes == 0 && lane / kLanes < 4) {
      parts[item][lane / kLanes] = sums[0] * routing.weights[place];
      if (kLanes == 16) parts[item][lane / kLanes + 2] = sums[1] * routing.weights[place];
    }
    lanes_barrier();
    const uint next = item + kDownStages * kFewWarps;
    if (next < items)
      fetch_item<kLanes>(a, shape, at, routing, quad0 + next / places, next % places, lane);
    copies_commit();
    slot = slot + 1 == kDownStages ? 0 : slot + 1;
  }
  group_barrier();
  if (tid < quads * 4) {
    float sum = 0.0f;
    for (uint i = 0; i < places; i++) sum += parts[tid / 4 * places + i][tid % 4];
    *h = old + sum;
  }
}

CUDA_KERNEL(experts_int8_down_4, ExpertsDownInt8Params, 768, 2) {
  experts_int8_down<4>(a);
}
CUDA_KERNEL(experts_int8_down_16, ExpertsDownInt8Params, 768, 2) {
  experts_int8_down<16>(a);
}
