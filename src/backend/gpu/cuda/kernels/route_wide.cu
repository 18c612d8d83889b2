// The router's products of many rows on Hopper's matrix units, precise enough that no other expert
// is chosen: weights and activations as a bf16 and the bf16 of what that lost, three products of
// the four; sums fp32. 8-bit weights. Grid: x ceil(T / 64), y sum over the parts of ceil(rows /
// 128); 256 threads, as wide_tile.h. Traffic: the matrices once per 64 rows, 8 bytes of an
// activation once per 128 weight rows.
#include "backend/gpu/cuda/kernels/wide_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/cuda/kernels/wide_mma.h"
#include "backend/gpu/cuda/kernels/wide_tile.h"
#include "backend/gpu/kernels/linear_rows.h"

KERNEL_CONST uint kRouteRows = 64;

// One thread's two weight rows, 32 columns of each 128.
struct RouteWeights {
  const uint4* codes[2];
  const ushort* scales[2];
  const ushort* biases[2];
};

// Word pair `word` of a row (8 columns): pairs (c, c + 4), rounded, and what that lost.
FN void route_unpack(uint low, uint high, float scale, float bias, uint c, uint& big, uint& rest) {
  const float x = m_fma((float)(low >> 8 * c & 255u), scale, bias),
              y = m_fma((float)(high >> 8 * c & 255u), scale, bias);
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(big) : "f"(y), "f"(x));
  const float dx = x - bf16_lo(big), dy = y - bf16_hi(big);
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(rest) : "f"(dy), "f"(dx));
}

// 64 columns: half of the lane's 32 of a block of 128.
FN void route_operands(const RouteWeights& w, uint stage, uint (*big)[4], uint (*rest)[4]) {
  UNROLL for (uint i = 0; i < 2; i++) {
    const uint block = stage / 2;
    const uint4 words = __ldg(w.codes[i] + block * 8 + stage % 2);
    const float scale = bf16_to_f(__ldg(w.scales[i] + block * 2)),
                bias = bf16_to_f(__ldg(w.biases[i] + block * 2));
    UNROLL for (uint k = 0; k < 4; k++) {
      const uint low = k < 2 ? words.x : words.z, high = k < 2 ? words.y : words.w, c = k % 2 * 2;
      route_unpack(low, high, scale, bias, c, big[k][i], rest[k][i]);
      route_unpack(low, high, scale, bias, c + 1, big[k][2 + i], rest[k][2 + i]);
    }
  }
}

FN void route_fetch(uchar* area, const LinearWideParams& p, const uint* rows, uint stage) {
  uchar* at = area + stage % kWideStages * (2 * kRouteRows * 128);
  wide_fetch<kRouteRows>(at, p.x, rows, p.linear.cols, stage * kWideK);
  wide_fetch<kRouteRows>(at + kRouteRows * 128, p.rest, rows, p.linear.cols, stage * kWideK);
}

FN void route_product(const LinearWideParams& p, const RouteWeights& w, const uint* rows,
                      uchar* area, float* sums) {
  const uint stages = p.linear.cols / kWideK;
  UNROLL for (uint i = 0; i < kRouteRows / 2; i++) sums[i] = 0.0f;
  UNROLL for (uint s = 0; s < 2; s++) {
    route_fetch(area, p, rows, s);
    copies_commit();
  }
  for (uint stage = 0; stage < stages; stage++) {
    uint big[4][4], rest[4][4];
    route_operands(w, stage, big, rest);
    copies_wait_for_groups<1>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    group_barrier();
    if (stage + 2 < stages) route_fetch(area, p, rows, stage + 2);
    copies_commit();
    const uchar* at = area + stage % kWideStages * (2 * kRouteRows * 128);
    wide_fence();
    UNROLL for (uint k = 0; k < 4; k++) {
      const ulong x = wide_operand(at + k * 32),
                  x_rest = wide_operand(at + kRouteRows * 128 + k * 32);
      WideMma<kRouteRows>::add(sums, big[k], x);
      WideMma<kRouteRows>::add(sums, big[k], x_rest);
      WideMma<kRouteRows>::add(sums, rest[k], x);
    }
    wide_commit();
    wide_wait<0>();
    wide_hold(big);
    wide_hold(rest);
  }
  UNROLL for (uint i = 0; i < kRouteRows / 2; i++) asm volatile("" : "+f"(sums[i])::"memory");
}

CUDA_KERNEL(route_wide, LinearWideParams, 256, 2) {
  const LinearParams& l = a.linear;
  const uint n = linear_n_rows(l), t0 = blockIdx.x * kRouteRows, tid = threadIdx.x;
  if (t0 >= n) return;
  __shared__ uint rows[kRouteRows];
  uint block = blockIdx.y;
  const LinearPart& part = l.parts[linear_part(l, kWideRows, block)];
  if (tid < kRouteRows) rows[tid] = u_min(t0 + tid, n - 1);
  group_barrier();
  const uint row = block * kWideRows + tid / 32 * 16 + tid % 32 / 4, t = tid % 4;
  RouteWeights w;
  UNROLL for (uint i = 0; i < 2; i++) {
    const ulong at = u_min(row + 8 * i, part.rows - 1);
    w.codes[i] = (const uint4*)part.codes + at * (l.cols / 16) + 2 * t;
    w.scales[i] = part.scales + at * (l.cols / 64) + t / 2;
    w.biases[i] = part.biases + at * (l.cols / 64) + t / 2;
  }
  float sums[kRouteRows / 2];
  route_product(a, w, rows, wide_area(), sums);
  UNROLL for (uint j = 0; j < kRouteRows / 2; j++) {
    const uint to = t0 + j / 4 * 8 + t * 2 + j % 2, r = row + j % 4 / 2 * 8;
    if (to < n && r < part.rows) part.y[(ulong)to * part.rows + r] = sums[j];
  }
}
