// Products of 32 rows with 64 weight rows on the tile layer, by groups of 128 threads: four
// simdgroups, each a tile of 16 x 32. One quantisation group (64 columns) a step, dequantised on
// its way into threadgroup memory. Both operands are rounded to bf16; sums fp32. Included by
// kernels after dialect.h.
#pragma once

KERNEL_CONST uint kTileX = 32, kTileW = 64, kTileK = 64, kTileThreads = 128;
KERNEL_CONST uint kTileLd = 72;  // 64 and 8 of padding: rows start in different banks.
KERNEL_CONST uint kTileOutLd = 68;
KERNEL_CONST uint kTileLoads = 4;  // float4 of x that a thread loads a step

struct TileBlock {
  ushort x[32 * 72];
  ushort w[64 * 72];
  float out[32 * 68];  // row of x, weight row
  uint rows[32];       // row of x behind each of the 32; the caller fills it
  float inverse[32];   // 1 / root mean square of each, after a product with a norm
};

// Half of the 64 weight rows: row0 + i for i < 32, no further than `last`.
struct TileHalf {
  DEV const uint* codes;
  DEV const ushort* scales;
  DEV const ushort* biases;
  ulong row0, last;
  uint bits;
};

// Two 4-bit codes, or two bytes, as a pair of bf16.
FN uint tile_pair(uint low, uint high, float scale, float bias) {
  return bf16_pair(m_fma((float)low, scale, bias), m_fma((float)high, scale, bias));
}

// The 32 rows of columns k0 .. k0 + 63, 16 bytes of codes a thread. `worker` of 64.
FN void tile_load_half(const THR TileHalf& w, uint cols, uint k0, uint worker, TG ushort* to) {
  const uint loads = w.bits / 2;  // 16-byte words of a row and step: 2 or 4
  DEV const uint4* codes = (DEV const uint4*)w.codes;
  for (uint i = worker; i < 32 * loads; i += 64) {
    const uint r = i / loads, part = i % loads;
    const ulong row = w.row0 + r < w.last ? w.row0 + r : w.last;
    const ulong group = row * (cols / 64) + k0 / 64;
    const float scale = bf16_to_f(w.scales[group]), bias = bf16_to_f(w.biases[group]);
    const uint4 words = codes[group * loads + part];
    TG uint* pairs = (TG uint*)(to + r * kTileLd + part * (128 / w.bits));
    UNROLL for (uint q = 0; q < 4; q++) {
      const uint word = q == 0 ? words.x : (q == 1 ? words.y : (q == 2 ? words.z : words.w));
      if (w.bits == 4) {
        UNROLL for (uint b = 0; b < 4; b++) pairs[4 * q + b] =
            tile_pair((word >> (8 * b)) & 15u, (word >> (8 * b + 4)) & 15u, scale, bias);
      } else {
        UNROLL for (uint b = 0; b < 2; b++) pairs[2 * q + b] =
            tile_pair((word >> (16 * b)) & 255u, (word >> (16 * b + 8)) & 255u, scale, bias);
      }
    }
  }
}

// Columns k0 .. k0 + 63 of the 32 rows; squares [kTileLoads] are of the rows that the thread loads.
template <bool kNorm>
FN void tile_load_x(TG TileBlock& sm, DEV const float* x, DEV const float* norm, uint cols, uint k0,
                    uint worker, THR float* squares) {
  const uint c = k0 + worker % 16 * 4;
  UNROLL for (uint j = 0; j < kTileLoads; j++) {
    const uint r = worker / 16 + 8 * j;
    float4 v = ((DEV const float4*)(x + (ulong)sm.rows[r] * cols))[c / 4];
    if (kNorm) {
      squares[j] = m_fma(v.x, v.x, m_fma(v.y, v.y, m_fma(v.z, v.z, m_fma(v.w, v.w, squares[j]))));
      const float4 w = ((DEV const float4*)norm)[c / 4];
      v = make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
    }
    TG uint* to = (TG uint*)(sm.x + r * kTileLd + c - k0);
    to[0] = bf16_pair(v.x, v.y);
    to[1] = bf16_pair(v.z, v.w);
  }
}

// sm.out [32, 64] = x W^T, without the division by the root mean square, which sm.inverse holds.
// sm.rows is set and behind a barrier. Ends with a barrier.
template <bool kNorm>
FN void tile_product(TG TileBlock& sm, const THR TileHalf& low, const THR TileHalf& high, uint cols,
                     DEV const float* x, DEV const float* norm, float eps, const THR Ids& id) {
  const uint tile_x = (id.simd >> 1) * 16, tile_w = (id.simd & 1u) * 32;
  float squares[kTileLoads] = {0.0f, 0.0f, 0.0f, 0.0f};
  TileC sums;
  tile_zero(sums);
  for (uint k0 = 0; k0 < cols; k0 += kTileK) {
    tile_load_x<kNorm>(sm, x, norm, cols, k0, id.tid, squares);
    if (id.tid < 64) {
      tile_load_half(low, cols, k0, id.tid, sm.w);
    } else {
      tile_load_half(high, cols, k0, id.tid - 64u, sm.w + 32 * kTileLd);
    }
    group_barrier();
    UNROLL for (uint k = 0; k < kTileK; k += 16) {
      TileA left;
      TileB right;
      tile_load_a(left, sm.x + tile_x * kTileLd + k, kTileLd);
      tile_load_bt(right, sm.w + tile_w * kTileLd + k, kTileLd);
      tile_mma(sums, left, right);
    }
    group_barrier();
  }
  tile_store(sums, sm.out + tile_x * kTileOutLd + tile_w, kTileOutLd);
  if (kNorm) {
    UNROLL for (uint j = 0; j < kTileLoads; j++) {
      float sum = squares[j];
      UNROLL for (uint m = 8; m > 0; m >>= 1) sum += lanes_xor(sum, m);
      if (id.tid % 16 == 0) sm.inverse[id.tid / 16 + 8 * j] = m_rsqrt(sum / (float)cols + eps);
    }
  }
  group_barrier();
}
