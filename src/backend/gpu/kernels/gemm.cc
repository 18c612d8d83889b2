// y [n, rows] = x [n, cols] W^T on the tile layer, 4- and 8-bit weights, dequantised on their way
// into threadgroup memory. Grid: x ceil(rows / 64), y ceil(n / 32); groups of 128 threads: four
// simdgroups, each a tile of 16 x 32 of the block of 32 x 64. One quantisation group (64 columns) a
// step. Both operands are rounded to bf16; sums fp32. Traffic: W once per 32 rows of x, x once per
// 64 rows of W.
#include "backend/gpu/kernels/gemm_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/quant.h"

KERNEL_CONST uint kGemmN = 32, kGemmRows = 64, kGemmK = 64, kGemmThreads = 128;
KERNEL_CONST uint kGemmLd = 72;  // 64 and 8 of padding: rows start in different banks.
KERNEL_CONST uint kGemmOutLd = 68;

struct GemmShared {
  ushort x[32 * 72];
  ushort w[64 * 72];
  float out[32 * 68];
};

template <uint kBits>
FN void gemm(CON GemmParams& a, TG GemmShared& sm, const THR Ids& id) {
  const uint kWords = kGemmK * kBits / 32;  // 32-bit words of a group of codes: 8 or 16
  const uint n0 = id.group.y * kGemmN, row0 = id.group.x * kGemmRows;
  const uint tile_n = (id.simd >> 1) * 16, tile_row = (id.simd & 1u) * 32;
  TileC sums;
  tile_zero(sums);
  for (uint k0 = 0; k0 < a.cols; k0 += kGemmK) {
    for (uint i = id.tid; i < kGemmN * kGemmK / 4; i += kGemmThreads) {
      const uint r = i / (kGemmK / 4), c = i % (kGemmK / 4) * 4;
      DEV const float4* from =
          (DEV const float4*)(a.x + (ulong)u_min(n0 + r, a.n - 1) * a.cols + k0 + c);
      const float4 v = from[0];
      TG uint* to = (TG uint*)(sm.x + r * kGemmLd + c);
      to[0] = bf16_pair(v.x, v.y);
      to[1] = bf16_pair(v.z, v.w);
    }
    for (uint i = id.tid; i < kGemmRows * kWords; i += kGemmThreads) {
      const uint r = i / kWords, c = i % kWords;
      const ulong row = u_min(row0 + r, a.rows - 1);
      const ulong group = row * (a.cols / 64) + k0 / 64;
      const uint codes = a.codes[group * kWords + c];
      const float scale = bf16_to_f(a.scales[group]), bias = bf16_to_f(a.biases[group]);
      if (kBits == 4) quant_unpack4(codes, scale, bias, sm.w + r * kGemmLd + 8 * c);
      if (kBits == 8) quant_unpack8(codes, scale, bias, sm.w + r * kGemmLd + 4 * c);
    }
    group_barrier();
    UNROLL for (uint k = 0; k < kGemmK; k += 16) {
      TileA left;
      TileB right;
      tile_load_a(left, sm.x + tile_n * kGemmLd + k, kGemmLd);
      tile_load_bt(right, sm.w + tile_row * kGemmLd + k, kGemmLd);
      tile_mma(sums, left, right);
    }
    group_barrier();
  }
  tile_store(sums, sm.out + tile_n * kGemmOutLd + tile_row, kGemmOutLd);
  group_barrier();
  for (uint i = id.tid; i < kGemmN * kGemmRows; i += kGemmThreads) {
    const uint r = i / kGemmRows, c = i % kGemmRows;
    if (n0 + r < a.n && row0 + c < a.rows)
      a.y[(ulong)(n0 + r) * a.rows + row0 + c] = sm.out[r * kGemmOutLd + c];
  }
}

KERNEL(gemm_q4, GemmParams, GemmShared, 128) {
  gemm<4>(a, sm, id);
}
KERNEL(gemm_q8, GemmParams, GemmShared, 128) {
  gemm<8>(a, sm, id);
}
