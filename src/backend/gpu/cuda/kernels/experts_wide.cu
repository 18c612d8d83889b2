// experts_tile.cc on Hopper's matrix units (wide_tile.h). A block is up to 128 rows that chose one
// expert; the tile is as wide as the block needs.
// up: of a warp's 16 weight rows eight are of gate and eight of up, so that both halves of an
// output meet in one lane. It leaves act as bf16 in the order that down takes. Grid: x row tiles of
// 128 weight rows, y blocks; 256 threads. Traffic: an expert's matrices once per block; the block's
// rows of x once per tile, from cache.
#include "backend/gpu/cuda/kernels/wide_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/cuda/kernels/wide_mma.h"
#include "backend/gpu/cuda/kernels/wide_tile.h"
#include "backend/gpu/kernels/experts_tile.h"

KERNEL_CONST uint kBlockRows = 128;

struct WideRowsShared {
  uint rows[128], slots[128];
};

// act, bf16: those of the shared expert in its own buffer.
FN ushort* wide_act(float* act) {
  return (ushort*)act;
}

template <uint kN>
FN void experts_wide_up(const ExpertsUpWideParams& p, const ExpertBlock& b,
                        const WideRowsShared& sm) {
  const ExpertsUpParams& a = p.up;
  const uint tid = threadIdx.x, width = b.shared ? a.shared_width : a.width;
  const uint row = blockIdx.x * 64 + tid / 32 * 8 + tid % 32 / 4;  // Of gate and of up.
  const ExpertMatrix& gate = b.shared ? a.shared_gate : a.gate;
  const ExpertMatrix& up = b.shared ? a.shared_up : a.up;
  const ulong at = (ulong)b.expert * width + u_min(row, width - 1);
  WideWeights w;
  wide_row(w, 0, gate.codes, gate.scales, gate.biases, at, gate.cols);
  wide_row(w, 1, up.codes, up.scales, up.biases, at, gate.cols);
  float sums[kN / 2];
  wide_product<kN>(sums, w, p.x, sm.rows, gate.cols, wide_area());
  ushort* act = wide_act(b.shared ? a.shared_act : a.act);
  const uint place = row / 128 * 128 + wide_place(row % 128 & ~4u);
  UNROLL for (uint j = 0; j < kN / 8; j++) {
    UNROLL for (uint i = 0; i < 2; i++) {
      const float mine = m_silu(sums[4 * j + i]) * sums[4 * j + 2 + i], other = lanes_xor(mine, 16);
      const uint t = j * 8 + tid % 4 * 2 + i;
      if (tid % 32 < 16 && t < b.n && row < width) {
        *(uint*)(act + (ulong)sm.slots[t] * width + place) = bf16_pair(mine, other);
      }
    }
  }
}

template <uint kN>
FN void experts_wide_down(const ExpertsDownParams& a, const ExpertBlock& b,
                          const WideRowsShared& sm) {
  const uint tid = threadIdx.x, row = blockIdx.x * kWideRows + tid / 32 * 16 + tid % 32 / 4;
  const ExpertMatrix& down = b.shared ? a.shared_down : a.down;
  WideWeights w;
  UNROLL for (uint i = 0; i < 2; i++) {
    const ulong at = (ulong)b.expert * a.hidden + u_min(row + 8 * i, a.hidden - 1);
    wide_row(w, i, down.codes, down.scales, down.biases, at, down.cols);
  }
  float sums[kN / 2];
  wide_product<kN>(sums, w, (const ushort*)(b.shared ? a.shared_act : a.act), sm.rows, down.cols,
                   wide_area());
  UNROLL for (uint j = 0; j < kN / 2; j++) {
    const uint t = j / 4 * 8 + tid % 4 * 2 + j % 2, r = row + j % 4 / 2 * 8;
    if (t < b.n && r < a.hidden) {
      const ulong to = (b.shared ? a.shared_at : 0u) + sm.slots[t];
      a.out[to * a.hidden + r] = f_to_bf16(sums[j]);
    }
  }
}

// The block's rows, as in experts_tile.h.
FN void wide_rows(WideRowsShared& sm, const ExpertBlock& b, const uint* slots, uint per_row) {
  if (threadIdx.x < kBlockRows) {
    const uint place = b.first + u_min(threadIdx.x, b.n - 1),
               slot = b.shared ? place : slots[place];
    sm.slots[threadIdx.x] = slot;
    sm.rows[threadIdx.x] = b.shared ? slot : slot / per_row;
  }
  group_barrier();
}

#define WIDE_BY_ROWS(run, ...) \
  if (b.n <= 32) {             \
    run<32>(__VA_ARGS__);      \
  } else if (b.n <= 48) {      \
    run<48>(__VA_ARGS__);      \
  } else if (b.n <= 64) {      \
    run<64>(__VA_ARGS__);      \
  } else if (b.n <= 80) {      \
    run<80>(__VA_ARGS__);      \
  } else if (b.n <= 96) {      \
    run<96>(__VA_ARGS__);      \
  } else {                     \
    run<128>(__VA_ARGS__);     \
  }

CUDA_KERNEL(experts_wide_up, ExpertsUpWideParams, 256, 2) {
  __shared__ WideRowsShared sm;
  ExpertBlock b;
  expert_block(a.up.blocks, blockIdx.y, pass_rows(a.up.control), a.up.n_experts, a.up.n_chosen, b);
  if (b.n == 0) return;
  wide_rows(sm, b, a.up.blocks.slots, a.up.n_chosen);
  WIDE_BY_ROWS(experts_wide_up, a, b, sm)
}
CUDA_KERNEL(experts_wide_down, ExpertsDownParams, 256, 2) {
  __shared__ WideRowsShared sm;
  ExpertBlock b;
  expert_block(a.blocks, blockIdx.y, pass_rows(a.control), a.n_experts, a.n_chosen, b);
  if (b.n == 0) return;
  wide_rows(sm, b, a.blocks.slots, 1);
  WIDE_BY_ROWS(experts_wide_down, a, b, sm)
}
