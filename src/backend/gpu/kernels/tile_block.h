// Products of rows with weight rows on the tile layer, by groups of 128 threads: kRows x kCols is
// 16 x 128, 32 x 64, 32 x 128 or 64 x 128, dealt to four simdgroups in tiles of 16 x 32. One
// quantisation group (64 columns) a step, dequantised on its way into threadgroup memory. Both
// operands are rounded to bf16; sums fp32, over columns in the same order in every shape. Included
// by kernels after dialect.h.
#pragma once

#include "backend/gpu/kernels/quant.h"

KERNEL_CONST uint kTileK = 64, kTileThreads = 128;
KERNEL_CONST uint kTileLd = 72;       // 64 and 8 of padding: rows start in different banks.
KERNEL_CONST uint kTileOutRows = 32;  // Rows of sums that are in threadgroup memory at a time.

// uint4 of threadgroup memory: kRows + kCols rows of operands, later up to 32 rows of kCols sums.
#define LILY_TILE_AREA(rows, cols) (((rows) + (cols)) * 72 / 8)

// Where a simdgroup's part of the block begins: four side by side on 16 rows, else two by two.
template <uint kRows>
FN uint tile_row0(uint simd) {
  return kRows == 16 ? 0u : simd / 2 * (kRows / 2);
}
template <uint kRows, uint kCols>
FN uint tile_col0(uint simd) {
  return kRows == 16 ? simd * (kCols / 4) : simd % 2 * (kCols / 2);
}

// Half of the weight rows: row0 + i, no further than `last`.
struct TileHalf {
  DEV const uint* codes;
  DEV const ushort* scales;
  DEV const ushort* biases;
  ulong row0, last;
  uint bits;  // 4, 8, or 16: bf16 numbers
};

struct TileInput {
  DEV const float* x;
  DEV const float* norm;
  TG const uint* rows;  // row of x behind each of the block's, set and behind a barrier
  uint cols;
};

template <uint kBits>
FN void tile_unpack(uint4 codes, float scale, float bias, TG uint* to) {
  const uint kPairs = 64 / kBits;
  uint pairs[kPairs];
  quant_pairs<kBits>(codes, scale, bias, pairs);
  UNROLL for (uint i = 0; i < kPairs; i++) to[i] = pairs[i];
}

// Columns k0 .. k0 + 63 of kHalf weight rows, 16 bytes of codes a thread. `worker` of 64.
template <uint kHalf>
FN void tile_load_half(const THR TileHalf& w, uint cols, uint k0, uint worker, TG ushort* to) {
  const uint loads = w.bits / 2;  // 16-byte words of a row and step: 2, 4 or 8
  DEV const uint4* codes = (DEV const uint4*)w.codes;
  for (uint i = worker; i < kHalf * loads; i += 64) {
    const uint r = i / loads, part = i % loads;
    const ulong row = w.row0 + r < w.last ? w.row0 + r : w.last;
    const ulong group = row * (cols / 64) + k0 / 64;
    const uint4 words = codes[group * loads + part];
    TG uint* pairs = (TG uint*)(to + r * kTileLd + part * (128 / w.bits));
    if (w.bits == 16) {
      *(TG uint4*)pairs = words;
      continue;
    }
    const float scale = bf16_to_f(w.scales[group]), bias = bf16_to_f(w.biases[group]);
    if (w.bits == 4) {
      tile_unpack<4>(words, scale, bias, pairs);
    } else {
      tile_unpack<8>(words, scale, bias, pairs);
    }
  }
}

// Columns k0 .. k0 + 63 of the rows; squares [kRows / 8] are of the rows that the thread loads.
template <uint kRows, bool kNorm>
FN void tile_load_x(const THR TileInput& in, uint k0, uint worker, TG ushort* to,
                    THR float* squares) {
  const uint c = k0 + worker % 16 * 4;
  UNROLL for (uint j = 0; j < kRows / 8; j++) {
    const uint r = worker / 16 + 8 * j;
    float4 v = ((DEV const float4*)(in.x + (ulong)in.rows[r] * in.cols))[c / 4];
    if (kNorm) {
      squares[j] = m_fma(v.x, v.x, m_fma(v.y, v.y, m_fma(v.z, v.z, m_fma(v.w, v.w, squares[j]))));
      const float4 w = ((DEV const float4*)in.norm)[c / 4];
      v = make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
    }
    TG uint* pairs = (TG uint*)(to + r * kTileLd + c - k0);
    pairs[0] = bf16_pair(v.x, v.y);
    pairs[1] = bf16_pair(v.z, v.w);
  }
}

// The simdgroup's tiles, kDeep x kWide, += its rows of `left` times those of `right`, 64 columns.
template <class Units, uint kDeep, uint kWide>
FN void tile_step(TG const ushort* left, TG const ushort* right, THR typename Units::C* sums) {
  UNROLL for (uint k = 0; k < kTileK; k += 16) {
    typename Units::A a[kDeep];
    typename Units::B b[kWide];
    UNROLL for (uint r = 0; r < kDeep; r++) {
      tile_load_a(a[r], left + r * 16 * kTileLd + k, kTileLd);
    }
    UNROLL for (uint c = 0; c < kWide; c++) {
      tile_load_bt(b[c], right + c * 32 * kTileLd + k, kTileLd);
    }
    UNROLL for (uint r = 0; r < kDeep; r++) {
      UNROLL for (uint c = 0; c < kWide; c++) tile_mma(sums[r * kWide + c], a[r], b[c]);
    }
  }
}

// sums [kRows * kCols / 2048] = x W^T, the simdgroup's tiles; with kNorm without the division by
// the root mean square, whose square sum is left in squares. Ends with a barrier.
template <class Units, uint kRows, uint kCols, bool kNorm>
FN void tile_product(TG uint4* area, const THR TileHalf& low, const THR TileHalf& high,
                     const THR TileInput& in, THR typename Units::C* sums, THR float* squares,
                     const THR Ids& id) {
  const uint kDeep = kRows == 64 ? 2 : 1, kTiles = kRows * kCols / 2048;
  TG ushort* x = (TG ushort*)area;
  TG ushort* w = x + kRows * kTileLd;
  UNROLL for (uint j = 0; j < kRows / 8; j++) squares[j] = 0.0f;
  UNROLL for (uint i = 0; i < kTiles; i++) tile_zero(sums[i]);
  for (uint k0 = 0; k0 < in.cols; k0 += kTileK) {
    tile_load_x<kRows, kNorm>(in, k0, id.tid, x, squares);
    if (id.tid < 64) {
      tile_load_half<kCols / 2>(low, in.cols, k0, id.tid, w);
    } else {
      tile_load_half<kCols / 2>(high, in.cols, k0, id.tid - 64u, w + kCols / 2 * kTileLd);
    }
    group_barrier();
    tile_step<Units, kDeep, kTiles / kDeep>(x + tile_row0<kRows>(id.simd) * kTileLd,
                                            w + tile_col0<kRows, kCols>(id.simd) * kTileLd, sums);
    group_barrier();
  }
}

// inverse [kRows] = 1 / root mean square of each row, from the squares of tile_product. A barrier
// comes before it is read.
template <uint kRows>
FN void tile_inverse(TG float* inverse, const THR float* squares, uint cols, float eps, uint tid) {
  UNROLL for (uint j = 0; j < kRows / 8; j++) {
    float sum = squares[j];
    UNROLL for (uint m = 8; m > 0; m >>= 1) sum += lanes_xor(sum, m);
    if (tid % 16 == 0) inverse[tid / 16 + 8 * j] = m_rsqrt(sum / (float)cols + eps);
  }
}

// Rows first .. first + 31 of the sums (all 16 where there are no more) in threadgroup memory, rows
// of kCols + 4. Ends with a barrier; who calls it again for other rows has read these.
template <class Units, uint kRows, uint kCols>
FN TG const float* tile_out(TG uint4* area, THR typename Units::C* sums, uint first,
                            const THR Ids& id) {
  const uint kDeep = kRows == 64 ? 2 : 1, kWide = kRows * kCols / 2048 / kDeep, kLd = kCols + 4;
  const uint row0 = tile_row0<kRows>(id.simd), col0 = tile_col0<kRows, kCols>(id.simd);
  TG float* out = (TG float*)area;
  if (first > 0) group_barrier();
  if (row0 / kTileOutRows == first / kTileOutRows) {  // The same for a simdgroup.
    UNROLL for (uint r = 0; r < kDeep; r++) {
      UNROLL for (uint c = 0; c < kWide; c++) {
        tile_store(sums[r * kWide + c], out + (row0 - first + r * 16) * kLd + col0 + c * 32, kLd);
      }
    }
  }
  group_barrier();
  return out;
}
