// Dots of codes with activations for AVX2: what linear_tiles.h builds on. Half a block (8 rows) is
// one register.
//
// maddubs multiplies 32 unsigned codes with four broadcast activations and adds pairs into 16 bits:
// at most 2 * 15 * 127 = 3,810. A 16-bit lane then meets 16 such pairs in a group, 32 products: up
// to 60,960, too much. So a lane starts at -8 times the sum of its activations and ends at the sum
// of (code - 8) * x, whose magnitude is at most 32 * 8 * 127 = 32,512 < 32,768. On the way it may
// wrap, which 16-bit addition undoes. One madd a group is left, not one in two maddubs.
//
// Rates of the int8 tile, one thread of an EPYC Milan at 251 GOP/s for (2 maddubs, add, madd, add)
// from registers, g++ 12: activation rows x weight rows 1x16 159, 2x16 198, 3x16 226, 4x16 239,
// 6x16 246; 4x8 206, 6x8 219, 8x8 230. clang 14: 4x16 230, 6x16 205 (spills). Without the barrier
// below g++ makes one tree of the sums and spills: 4x16 136.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/simd.h"
#include "spec/layout.h"

namespace lily::cpu::LILY_ISA {

inline constexpr int kInt8TileBlocks = 1, kInt8TileRows = 4, kExactTileRows = 4;

// Tells the compiler to keep the sums in the order written, in registers.
#define LILY_PIN(x) asm("" : "+x"(x))

LILY_INLINE __m256i broadcast4(const void* p) {
  std::int32_t bytes;
  std::memcpy(&bytes, p, 4);
  return _mm256_set1_epi32(bytes);
}
LILY_INLINE __m256i load32(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
LILY_INLINE void add_products(__m256i& sum, __m256i codes, __m256i x) {
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, x));
  LILY_PIN(sum);
}

// Sums of (nibble - 8) * x over one plane of a group: out[2 r] rows 0..7 of the block, out[2 r + 1]
// rows 8..15, int32.
template <int R>
LILY_INLINE void plane_dots(const std::byte* plane, const Int8Group* const (&x)[R],
                            __m256i (&out)[2 * R]) {
  const __m256i nibble = _mm256_set1_epi8(15);
  for (int r = 0; r < R; ++r) out[2 * r] = out[2 * r + 1] = broadcast4(x[r]->centre);
#pragma GCC unroll 2
  for (int v = 0; v < 8; ++v) {
    const __m256i c0 = load32(plane + 64 * v), c1 = load32(plane + 64 * v + 32);
    const __m256i low0 = _mm256_and_si256(c0, nibble), low1 = _mm256_and_si256(c1, nibble);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m256i four = broadcast4(x[r]->codes + 8 * v);
      add_products(out[2 * r], low0, four);
      add_products(out[2 * r + 1], low1, four);
    }
    const __m256i high0 = _mm256_and_si256(_mm256_srli_epi16(c0, 4), nibble);
    const __m256i high1 = _mm256_and_si256(_mm256_srli_epi16(c1, 4), nibble);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m256i four = broadcast4(x[r]->codes + 8 * v + 4);
      add_products(out[2 * r], high0, four);
      add_products(out[2 * r + 1], high1, four);
    }
  }
  const __m256i ones = _mm256_set1_epi16(1);
  for (auto& sum : out) sum = _mm256_madd_epi16(sum, ones);
}

// dots[0][r] = float(sum over the group of (code - k) * x[r])
template <int B, int R, int Bits>
LILY_INLINE void group_dots(const std::byte* const (&codes)[B], const Int8Group* const (&x)[R],
                            F16 (&dots)[B][R]) {
  static_assert(B == kInt8TileBlocks);
  __m256i sums[2 * R];
  plane_dots<R>(codes[0], x, sums);
  if constexpr (Bits == 8) {
    __m256i high[2 * R];
    plane_dots<R>(codes[0] + kPlaneBytes, x, high);
    for (int i = 0; i < 2 * R; ++i)
      sums[i] = _mm256_add_epi32(sums[i], _mm256_slli_epi32(high[i], 4));
  }
  for (int r = 0; r < R; ++r) {
    dots[0][r] = {_mm256_cvtepi32_ps(sums[2 * r]), _mm256_cvtepi32_ps(sums[2 * r + 1])};
  }
}

// Four columns of a block: byte i of a lane is the code of column 8 v + i, or of 8 v + 4 + i where
// High.
struct CodeQuad {
  __m256i c0, c1;  // Rows 0..7 and 8..15
};
template <int Bits, bool High>
LILY_INLINE __m256i quad(const std::byte* codes) {
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i a = load32(codes);
  if constexpr (Bits == 4) return _mm256_and_si256(High ? _mm256_srli_epi16(a, 4) : a, nibble);
  const __m256i b = load32(codes + kPlaneBytes);
  const __m256i low = _mm256_and_si256(High ? _mm256_srli_epi16(a, 4) : a, nibble);
  return _mm256_or_si256(low, High ? _mm256_andnot_si256(nibble, b)
                                   : _mm256_slli_epi16(_mm256_and_si256(b, nibble), 4));
}
template <int Bits, bool High>
LILY_INLINE CodeQuad load_codes(const std::byte* codes, int v) {
  return {quad<Bits, High>(codes + 64 * v), quad<Bits, High>(codes + 64 * v + 32)};
}
LILY_INLINE F16 column(const CodeQuad& q, int i) {
  const __m256i first = _mm256_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12);
  const __m256i pick =
      _mm256_add_epi32(first, _mm256_set1_epi32(i - 256));  // A byte of 0xff gives zero.
  return {_mm256_cvtepi32_ps(_mm256_shuffle_epi8(q.c0, pick)),
          _mm256_cvtepi32_ps(_mm256_shuffle_epi8(q.c1, pick))};
}

// Sums of codes 4i, 4i + 1 and of codes 4i + 2, 4i + 3.
LILY_INLINE void code_sums(const std::int8_t* codes, std::int32_t (&sums)[2]) {
  const __m256i one = _mm256_set1_epi8(1);
  const auto pairs = [&](const std::int8_t* p) {
    return _mm256_maddubs_epi16(one, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  };
  const __m256i all = _mm256_add_epi16(pairs(codes), pairs(codes + 32));
  __m128i s = _mm_add_epi16(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  s = _mm_add_epi16(s, _mm_srli_si128(s, 8));
  s = _mm_add_epi16(s, _mm_srli_si128(s, 4));
  sums[0] = static_cast<std::int16_t>(_mm_extract_epi16(s, 0));
  sums[1] = static_cast<std::int16_t>(_mm_extract_epi16(s, 1));
}

#undef LILY_PIN

}  // namespace lily::cpu::LILY_ISA
