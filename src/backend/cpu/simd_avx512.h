// F16 for AVX-512 (F, BW, DQ, VL): sixteen floats in one register. The operations and their exact
// results are those of simd_portable.h; simd.h says what they mean and builds the functions on top.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace lily::cpu::LILY_ISA {

inline constexpr bool kManyRegisters = true;

struct F16 {
  __m512 v;
};

LILY_INLINE F16 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
LILY_INLINE void store(float* p, F16 x) {
  _mm512_storeu_ps(p, x.v);
}
LILY_INLINE F16 broadcast(float x) {
  return {_mm512_set1_ps(x)};
}
LILY_INLINE F16 zero() {
  return {_mm512_setzero_ps()};
}

LILY_INLINE F16 add(F16 a, F16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
LILY_INLINE F16 sub(F16 a, F16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
LILY_INLINE F16 mul(F16 a, F16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
LILY_INLINE F16 div(F16 a, F16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
LILY_INLINE F16 fma(F16 a, F16 b, F16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
LILY_INLINE F16 max(F16 a, F16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
LILY_INLINE F16 min(F16 a, F16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
LILY_INLINE F16 sqrt(F16 x) {
  return {_mm512_sqrt_ps(x.v)};
}
LILY_INLINE F16 abs(F16 x) {
  return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), x.v)};
}
LILY_INLINE F16 round(F16 x) {
  return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

LILY_INLINE __mmask16 first_lanes(int n) {
  return static_cast<__mmask16>(n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u);
}
LILY_INLINE F16 first_or(F16 x, int n, float other) {
  return {_mm512_mask_blend_ps(first_lanes(n), _mm512_set1_ps(other), x.v)};
}

LILY_INLINE float reduce_add(F16 x) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
LILY_INLINE float reduce_max(F16 x) {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

// scalef rounds once, and so do the two products of the definition: with |x| near 1 the first is
// exact.
LILY_INLINE F16 times_pow2(F16 x, F16 shifted) {
  return {_mm512_scalef_ps(x.v, _mm512_sub_ps(shifted.v, _mm512_set1_ps(0x1.8p23f)))};
}

LILY_INLINE __m512 widen_bf16(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
LILY_INLINE F16 load_bf16(const std::uint16_t* p) {
  return {widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
LILY_INLINE F16 load_bf16_even(const std::uint16_t* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16))};
}
LILY_INLINE F16 load_bf16_odd(const std::uint16_t* p) {
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), high))};
}
// The processor's own conversion takes subnormal numbers for zero.
LILY_INLINE void store_bf16(std::uint16_t* p, F16 x) {
  const __m512i bits = _mm512_castps_si512(x.v), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i bump = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bump), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  const __m512i narrow = _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(narrow));
}

LILY_INLINE void store_i8(std::int8_t* p, F16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x.v)));
}

LILY_INLINE void load_streams(const float* p, F16 (&out)[4]) {
  const __m512 r[4] = {_mm512_loadu_ps(p), _mm512_loadu_ps(p + 16), _mm512_loadu_ps(p + 32),
                       _mm512_loadu_ps(p + 48)};
  const __m512i lane = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  for (int s = 0; s < 4; s += 2) {  // Streams s and s + 1, half of each from two registers.
    const __m512i pick = _mm512_add_epi32(lane, _mm512_set1_epi32(s));
    const __m512 low = _mm512_permutex2var_ps(r[0], pick, r[1]);
    const __m512 high = _mm512_permutex2var_ps(r[2], pick, r[3]);
    out[s] = {_mm512_shuffle_f32x4(low, high, 0x44)};
    out[s + 1] = {_mm512_shuffle_f32x4(low, high, 0xee)};
  }
}

}  // namespace lily::cpu::LILY_ISA
