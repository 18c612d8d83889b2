// Dots of codes with activations for AVX-512 with VNNI: what linear_tiles.h builds on. A block (16
// rows) is one register.
//
// dpbusd multiplies 64 unsigned codes with four broadcast activations and adds four products into
// each 32-bit lane, which cannot overflow. A lane starts at -8 times the sum of the group's
// activations and ends at the sum of (code - 8) * x.
//
// Two blocks side by side share each broadcast: two loads a cycle would otherwise bind before two
// products do. G multiply-adds/s of one thread of an EPYC Turin at 4.2 GHz, whose dpbusd alone
// makes 535, in the first-level cache, blocks x rows: 1x8 330, 2x4 392, 2x6 415; the scales and
// sums of a group cost three operations on the same two ports, so that 450 is the most. For one to
// three rows memory binds, and two streams from it are slower than one: decode 28 GB/s against 37.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/simd.h"
#include "spec/layout.h"

namespace lily::cpu::LILY_ISA {

inline constexpr int kInt8TileBlocks = 2, kInt8TileRows = 6, kExactTileRows = 8;

LILY_INLINE __m512i broadcast4(const void* p) {
  std::int32_t bytes;
  std::memcpy(&bytes, p, 4);
  return _mm512_set1_epi32(bytes);
}
LILY_INLINE __m512i load64(const std::byte* p) {
  return _mm512_loadu_si512(p);
}

// Sums of (nibble - 8) * x over one plane of a group of B blocks, int32.
template <int B, int R>
LILY_INLINE void plane_dots(const std::byte* const (&planes)[B], const Int8Group* const (&x)[R],
                            __m512i (&out)[B][R]) {
  const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    for (int b = 0; b < B; ++b) out[b][r] = _mm512_set1_epi32(x[r]->centre_all);
  }
#pragma GCC unroll 8
  for (int v = 0; v < 8; ++v) {
    __m512i low[B], high[B];
    for (int b = 0; b < B; ++b) {
      const __m512i codes = load64(planes[b] + 64 * v);
      low[b] = _mm512_and_si512(codes, nibble);
      high[b] = _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i four = broadcast4(x[r]->codes + 8 * v);
      for (int b = 0; b < B; ++b) out[b][r] = _mm512_dpbusd_epi32(out[b][r], low[b], four);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i four = broadcast4(x[r]->codes + 8 * v + 4);
      for (int b = 0; b < B; ++b) out[b][r] = _mm512_dpbusd_epi32(out[b][r], high[b], four);
    }
  }
}

// dots[b][r] = float(sum over the group of (code - k) * x[r])
template <int B, int R, int Bits>
LILY_INLINE void group_dots(const std::byte* const (&codes)[B], const Int8Group* const (&x)[R],
                            F16 (&dots)[B][R]) {
  __m512i sums[B][R];
  plane_dots(codes, x, sums);
  if constexpr (Bits == 8) {
    const std::byte* planes[B];
    for (int b = 0; b < B; ++b) planes[b] = codes[b] + kPlaneBytes;
    __m512i high[B][R];
    plane_dots(planes, x, high);
    for (int b = 0; b < B; ++b) {
      for (int r = 0; r < R; ++r)
        sums[b][r] = _mm512_add_epi32(sums[b][r], _mm512_slli_epi32(high[b][r], 4));
    }
  }
  for (int b = 0; b < B; ++b) {
    for (int r = 0; r < R; ++r) dots[b][r] = {_mm512_cvtepi32_ps(sums[b][r])};
  }
}

// Four columns of a block: byte i of a lane is the code of column 8 v + i, or of 8 v + 4 + i where
// High.
struct CodeQuad {
  __m512i codes;
};
template <int Bits, bool High>
LILY_INLINE CodeQuad load_codes(const std::byte* codes, int v) {
  const __m512i nibble = _mm512_set1_epi8(15);
  const __m512i a = load64(codes + 64 * v);
  const __m512i low = _mm512_and_si512(High ? _mm512_srli_epi16(a, 4) : a, nibble);
  if constexpr (Bits == 4) return {low};
  const __m512i b = load64(codes + kPlaneBytes + 64 * v);
  return {_mm512_or_si512(low, High ? _mm512_andnot_si512(nibble, b)
                                    : _mm512_slli_epi16(_mm512_and_si512(b, nibble), 4))};
}
LILY_INLINE F16 column(const CodeQuad& q, int i) {
  const __m512i shifted = _mm512_srli_epi32(q.codes, static_cast<unsigned>(8 * i));
  const __m512i code = i == 3 ? shifted : _mm512_and_si512(shifted, _mm512_set1_epi32(255));
  return {_mm512_cvtepi32_ps(code)};
}

// Sums of codes 4i, 4i + 1 and of codes 4i + 2, 4i + 3.
LILY_INLINE void code_sums(const std::int8_t* codes, std::int32_t (&sums)[2]) {
  const __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi8(1), _mm512_loadu_si512(codes));
  const __m256i half =
      _mm256_add_epi16(_mm512_castsi512_si256(pairs), _mm512_extracti64x4_epi64(pairs, 1));
  __m128i s = _mm_add_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  s = _mm_add_epi16(s, _mm_srli_si128(s, 8));
  s = _mm_add_epi16(s, _mm_srli_si128(s, 4));
  sums[0] = static_cast<std::int16_t>(_mm_extract_epi16(s, 0));
  sums[1] = static_cast<std::int16_t>(_mm_extract_epi16(s, 1));
}

}  // namespace lily::cpu::LILY_ISA
