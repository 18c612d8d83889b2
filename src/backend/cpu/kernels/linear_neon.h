// Dots of codes with activations for 64-bit ARM: what linear_tiles.h builds on. A quarter of a
// block (4 rows) is one register.
//
// sdot multiplies 16 bytes of codes with four activations, which it takes from any lane of a
// register, and adds fours into 32 bits: nothing overflows, and a sum may start at -k times the sum
// of the activations. A 4-bit code fits a signed byte as it is. An 8-bit one is put together from
// its planes by sli or sri and is unsigned: where there is usdot it is taken so, elsewhere the high
// plane's top bits are flipped first, which takes 128 off.
//
// LILY_ISA_I8MM: two rows and more go through smmla, which multiplies 2 weight rows with 2
// activation rows over 8 columns. zip puts two quads of a weight row side by side, which are
// columns 16 w .. + 3 and 16 w + 8 .. + 11 in the low nibbles and 4 more in the high ones; uzp puts
// the activations in the same order.
//
// No speed was measured. Instructions of the int8 tile for a group of 16 x 64 weights, g++ 12, the
// loop over its columns + scales, sums and the rest, at 1 / 2 / 3 / 4 activation rows:
//   neon       4 bits  160 +  42   232 +  65   300 + 135   384 + 187
//              8 bits  248 +  76   312 +  99   384 + 146   476 + 196
//   neon-i8mm  4 bits  160 +  42   208 +  73   316 + 147   336 + 191
//              8 bits  216 +  77   288 + 107   388 + 191   396 + 196
// so for 4 bits 0.20 a weight at one row and 0.14 or 0.13 a product at four. With the loop unrolled
// g++ keeps a group's codes on the stack and runs each sum as one chain.
#pragma once

#include <arm_neon.h>

#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/simd.h"
#include "spec/layout.h"

namespace lily::cpu::LILY_ISA {

inline constexpr int kInt8TileBlocks = 1, kInt8TileRows = 4, kExactTileRows = 4;

LILY_INLINE uint8x16_t load16(const std::byte* p) {
  return vld1q_u8(reinterpret_cast<const std::uint8_t*>(p));
}
LILY_INLINE int8x16_t low_nibbles(uint8x16_t codes) {
  return vreinterpretq_s8_u8(vandq_u8(codes, vdupq_n_u8(15)));
}
LILY_INLINE int8x16_t high_nibbles(uint8x16_t codes) {
  return vreinterpretq_s8_u8(vshrq_n_u8(codes, 4));
}
// 8-bit codes of the columns in the low and in the high nibbles of both planes.
LILY_INLINE uint8x16_t low_bytes(uint8x16_t plane, uint8x16_t high_plane) {
  return vsliq_n_u8(plane, high_plane, 4);
}
LILY_INLINE uint8x16_t high_bytes(uint8x16_t plane, uint8x16_t high_plane) {
  return vsriq_n_u8(high_plane, plane, 4);
}

// What a sum starts at, so that it ends at the sum of (code - k) * x.
template <int Bits>
LILY_INLINE std::int32_t dot_start(const Int8Group& x) {
#if defined(LILY_ISA_I8MM)
  if constexpr (Bits == 8) return 17 * x.centre_all;  // k = 136; elsewhere 128 is off already.
#endif
  return x.centre_all;
}

// sums += four columns of 4 rows; the columns' activations are word Lane of x.
template <int Lane>
LILY_INLINE int32x4_t add_dots(int32x4_t sums, int8x16_t codes, int8x16_t x) {
  return vdotq_laneq_s32(sums, codes, x, Lane);
}

#if defined(LILY_ISA_I8MM)
template <int Lane>
LILY_INLINE int32x4_t add_dots(int32x4_t sums, uint8x16_t codes, int8x16_t x) {
  return vusdotq_laneq_s32(sums, codes, x, Lane);
}
#endif

// Eight columns of 4 rows times R rows; Half 0 or 1 is the columns' place in the 16 of x.
template <int Half, int R, typename Codes>
LILY_INLINE void add_rows(Codes low, Codes high, const int8x16_t (&x)[R], int32x4_t (&sums)[4 * R],
                          int quarter) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    int32x4_t& sum = sums[4 * r + quarter];
    sum = add_dots<2 * Half>(sum, low, x[r]);
    sum = add_dots<2 * Half + 1>(sum, high, x[r]);
  }
}

// One register of codes.
template <int R, int Bits, int Half>
LILY_INLINE void add_quarter(const std::byte* codes, const int8x16_t (&x)[R],
                             int32x4_t (&sums)[4 * R], int quarter) {
  const uint8x16_t plane = load16(codes + 16 * quarter);
  if constexpr (Bits == 4) {
    add_rows<Half>(low_nibbles(plane), high_nibbles(plane), x, sums, quarter);
  } else {
    const uint8x16_t other = load16(codes + kPlaneBytes + 16 * quarter);
#if defined(LILY_ISA_I8MM)
    add_rows<Half>(low_bytes(plane, other), high_bytes(plane, other), x, sums, quarter);
#else
    const uint8x16_t flipped = veorq_u8(other, vdupq_n_u8(0x88));
    add_rows<Half>(vreinterpretq_s8_u8(low_bytes(plane, flipped)),
                   vreinterpretq_s8_u8(high_bytes(plane, flipped)), x, sums, quarter);
#endif
  }
}

// Lanes are weight rows: R rows, four registers of sums each.
template <int R, int Bits>
LILY_INLINE void sums_by_row(const std::byte* codes, const Int8Group* const (&x)[R],
                             int32x4_t (&sums)[4 * R]) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const int32x4_t start = vdupq_n_s32(dot_start<Bits>(*x[r]));
    for (int i = 0; i < 4; ++i) sums[4 * r + i] = start;
  }
#pragma GCC unroll 1
  for (int w = 0; w < 4; ++w, codes += 2 * 64) {
    int8x16_t four[R];
    for (int r = 0; r < R; ++r) four[r] = vld1q_s8(x[r]->codes + 16 * w);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) add_quarter<R, Bits, 0>(codes, four, sums, i);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) add_quarter<R, Bits, 1>(codes + 64, four, sums, i);
  }
}

#if defined(LILY_ISA_I8MM)

// Words 0 and 2, or 1 and 3, of two rows: eight columns each.
struct RowPair {
  int8x16_t low, high;
};
LILY_INLINE RowPair pair_rows(const std::int8_t* x, const std::int8_t* y) {
  const int32x4_t a = vreinterpretq_s32_s8(vld1q_s8(x)), b = vreinterpretq_s32_s8(vld1q_s8(y));
  return {vreinterpretq_s8_s32(vuzp1q_s32(a, b)), vreinterpretq_s8_s32(vuzp2q_s32(a, b))};
}
// Two quads of each row side by side: rows 0 and 1 of four, or rows 2 and 3.
LILY_INLINE uint8x16_t zip_low(uint8x16_t a, uint8x16_t b) {
  return vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
}
LILY_INLINE uint8x16_t zip_high(uint8x16_t a, uint8x16_t b) {
  return vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
}

// Two weight rows, eight columns in each nibble; `other`: their high plane, 8 bits only.
template <int P, int Bits>
LILY_INLINE void add_products(uint8x16_t plane, uint8x16_t other, const RowPair (&x)[P],
                              int32x4_t (&sums)[8 * P], int at) {
#pragma GCC unroll 2
  for (int p = 0; p < P; ++p) {
    int32x4_t& sum = sums[8 * p + at];
    if constexpr (Bits == 4) {
      sum = vmmlaq_s32(sum, low_nibbles(plane), x[p].low);
      sum = vmmlaq_s32(sum, high_nibbles(plane), x[p].high);
    } else {
      sum = vusmmlaq_s32(sum, low_bytes(plane, other), x[p].low);
      sum = vusmmlaq_s32(sum, high_bytes(plane, other), x[p].high);
    }
  }
}

// P pairs of rows: sums[8 p + i] is weight rows 2 i and 2 i + 1 by the rows of pair p. Where R is
// odd, the last row is taken twice.
template <int R, int Bits>
LILY_INLINE void sums_by_pair(const std::byte* codes, const Int8Group* const (&x)[R],
                              int32x4_t (&sums)[4 * (R + R % 2)]) {
  constexpr int kPairs = (R + 1) / 2;
#pragma GCC unroll 2
  for (int p = 0; p < kPairs; ++p) {
    const std::int32_t first = dot_start<Bits>(*x[2 * p]);
    const std::int32_t second = dot_start<Bits>(*x[2 * p + 1 < R ? 2 * p + 1 : R - 1]);
    const int32x4_t start = vzip1q_s32(vdupq_n_s32(first), vdupq_n_s32(second));
    for (int i = 0; i < 8; ++i) sums[8 * p + i] = start;
  }
#pragma GCC unroll 1
  for (int w = 0; w < 4; ++w, codes += 2 * 64) {
    RowPair pairs[kPairs];
    for (int p = 0; p < kPairs; ++p) {
      pairs[p] =
          pair_rows(x[2 * p]->codes + 16 * w, x[2 * p + 1 < R ? 2 * p + 1 : R - 1]->codes + 16 * w);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const uint8x16_t a = load16(codes + 16 * i), b = load16(codes + 64 + 16 * i);
      uint8x16_t c = a, d = b;
      if constexpr (Bits == 8) {
        c = load16(codes + kPlaneBytes + 16 * i);
        d = load16(codes + kPlaneBytes + 64 + 16 * i);
      }
      add_products<kPairs, Bits>(zip_low(a, b), zip_low(c, d), pairs, sums, 2 * i);
      add_products<kPairs, Bits>(zip_high(a, b), zip_high(c, d), pairs, sums, 2 * i + 1);
    }
  }
}

// dots[r] = float(sum over the group of (code - k) * x[r])
template <int R, int Bits>
LILY_INLINE void dots_by_pair(const std::byte* codes, const Int8Group* const (&x)[R],
                              F16 (&dots)[R]) {
  int32x4_t sums[4 * (R + R % 2)];
  sums_by_pair<R, Bits>(codes, x, sums);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const int32x4_t* const s = sums + 8 * (r / 2);
    const auto part = [&](int i) {
      return vcvtq_f32_s32(r % 2 == 0 ? vuzp1q_s32(s[i], s[i + 1]) : vuzp2q_s32(s[i], s[i + 1]));
    };
    dots[r] = {part(0), part(2), part(4), part(6)};
  }
}
#endif

template <int R, int Bits>
LILY_INLINE void dots_by_row(const std::byte* codes, const Int8Group* const (&x)[R],
                             F16 (&dots)[R]) {
  int32x4_t sums[4 * R];
  sums_by_row<R, Bits>(codes, x, sums);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const int32x4_t* const s = sums + 4 * r;
    dots[r] = {vcvtq_f32_s32(s[0]), vcvtq_f32_s32(s[1]), vcvtq_f32_s32(s[2]), vcvtq_f32_s32(s[3])};
  }
}

// dots[0][r] = float(sum over the group of (code - k) * x[r])
template <int B, int R, int Bits>
LILY_INLINE void group_dots(const std::byte* const (&codes)[B], const Int8Group* const (&x)[R],
                            F16 (&dots)[B][R]) {
  static_assert(B == kInt8TileBlocks);
#if defined(LILY_ISA_I8MM)
  if constexpr (R > 1)
    dots_by_pair<R, Bits>(codes[0], x, dots[0]);
  else
#endif
    dots_by_row<R, Bits>(codes[0], x, dots[0]);
}

// Four columns of a block: byte i of a lane is the code of column 8 v + i, or of 8 v + 4 + i where
// High.
struct CodeQuad {
  uint8x16_t c[4];  // Rows 0..3, 4..7, 8..11, 12..15
};
template <int Bits, bool High>
LILY_INLINE CodeQuad load_codes(const std::byte* codes, int v) {
  CodeQuad out;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const uint8x16_t plane = load16(codes + 64 * v + 16 * i);
    if constexpr (Bits == 4) {
      out.c[i] = vreinterpretq_u8_s8(High ? high_nibbles(plane) : low_nibbles(plane));
    } else {
      const uint8x16_t other = load16(codes + kPlaneBytes + 64 * v + 16 * i);
      out.c[i] = High ? high_bytes(plane, other) : low_bytes(plane, other);
    }
  }
  return out;
}
LILY_INLINE F16 column(const CodeQuad& q, int i) {
  // Byte i of each lane to its lowest place; an index past 15 gives zero.
  const uint32x4_t lowest = {0xffffff00u, 0xffffff04u, 0xffffff08u, 0xffffff0cu};
  const uint8x16_t pick =
      vreinterpretq_u8_u32(vaddq_u32(lowest, vdupq_n_u32(static_cast<std::uint32_t>(i))));
  const auto part = [&](uint8x16_t c) {
    return vcvtq_f32_u32(vreinterpretq_u32_u8(vqtbl1q_u8(c, pick)));
  };
  return {part(q.c[0]), part(q.c[1]), part(q.c[2]), part(q.c[3])};
}

// Sums of codes 4i, 4i + 1 and of codes 4i + 2, 4i + 3.
LILY_INLINE void code_sums(const std::int8_t* codes, std::int32_t (&sums)[2]) {
  int16x8_t pairs = vpaddlq_s8(vld1q_s8(codes));
  for (int i = 1; i < 4; ++i) pairs = vpadalq_s8(pairs, vld1q_s8(codes + 16 * i));
  sums[0] = vaddv_s16(vget_low_s16(vuzp1q_s16(pairs, pairs)));
  sums[1] = vaddv_s16(vget_low_s16(vuzp2q_s16(pairs, pairs)));
}

}  // namespace lily::cpu::LILY_ISA
