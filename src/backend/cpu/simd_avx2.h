// F16 for AVX2 with FMA: sixteen floats in two registers. The operations and their exact results
// are those of simd_portable.h; simd.h says what they mean and builds the functions on top.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace lily::cpu::LILY_ISA {

inline constexpr bool kManyRegisters = false;

struct F16 {
  __m256 lo, hi;  // Lanes 0..7 and 8..15.
};

LILY_INLINE F16 load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
LILY_INLINE void store(float* p, F16 x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
LILY_INLINE F16 broadcast(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
LILY_INLINE F16 zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}

LILY_INLINE F16 add(F16 a, F16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
LILY_INLINE F16 sub(F16 a, F16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
LILY_INLINE F16 mul(F16 a, F16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
LILY_INLINE F16 div(F16 a, F16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
LILY_INLINE F16 fma(F16 a, F16 b, F16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
LILY_INLINE F16 max(F16 a, F16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
LILY_INLINE F16 min(F16 a, F16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
LILY_INLINE F16 sqrt(F16 x) {
  return {_mm256_sqrt_ps(x.lo), _mm256_sqrt_ps(x.hi)};
}
LILY_INLINE F16 abs(F16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.lo), _mm256_andnot_ps(sign, x.hi)};
}
LILY_INLINE F16 round(F16 x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.lo, kNearest), _mm256_round_ps(x.hi, kNearest)};
}

LILY_INLINE F16 first_or(F16 x, int n, float other) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 rest = _mm256_set1_ps(other);
  const __m256 lo = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
  const __m256 hi = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lane));
  return {_mm256_blendv_ps(rest, x.lo, lo), _mm256_blendv_ps(rest, x.hi, hi)};
}

LILY_INLINE float halve_add(__m256 x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
LILY_INLINE float reduce_add(F16 x) {
  return halve_add(_mm256_add_ps(x.lo, x.hi));
}
LILY_INLINE float reduce_max(F16 x) {
  const __m256 m = _mm256_max_ps(x.lo, x.hi);
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

LILY_INLINE __m256i pow2_bits(__m256i exponent) {
  return _mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23);
}
LILY_INLINE __m256 times_pow2(__m256 x, __m256 shifted) {
  const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000));
  const __m256i half = _mm256_srai_epi32(n, 1);
  const __m256 once = _mm256_mul_ps(x, _mm256_castsi256_ps(pow2_bits(half)));
  return _mm256_mul_ps(once, _mm256_castsi256_ps(pow2_bits(_mm256_sub_epi32(n, half))));
}
LILY_INLINE F16 times_pow2(F16 x, F16 shifted) {
  return {times_pow2(x.lo, shifted.lo), times_pow2(x.hi, shifted.hi)};
}

LILY_INLINE __m256 widen_bf16(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
LILY_INLINE F16 load_bf16(const std::uint16_t* p) {
  return {widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
LILY_INLINE F16 load_bf16_even(const std::uint16_t* p) {
  const auto* const words = reinterpret_cast<const __m256i*>(p);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(words), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(words + 1), 16))};
}
LILY_INLINE F16 load_bf16_odd(const std::uint16_t* p) {
  const auto* const words = reinterpret_cast<const __m256i*>(p);
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(words), high)),
          _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(words + 1), high))};
}
LILY_INLINE __m256i narrow_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i bump = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bump), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, nan);
}
LILY_INLINE void store_bf16(std::uint16_t* p, F16 x) {
  const __m256i packed = _mm256_packus_epi32(narrow_bf16(x.lo), narrow_bf16(x.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}

LILY_INLINE void store_i8(std::int8_t* p, F16 x) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi));
  const __m256i order = _mm256_permute4x64_epi64(words, 0xd8);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packs_epi16(_mm256_castsi256_si128(order), _mm256_extracti128_si256(order, 1)));
}

LILY_INLINE __m256 load_pair(const float* p, const float* q) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(q), 1);
}
// Lanes 0..7 of four interleaved streams, from p[0..31].
LILY_INLINE void load_4x8(const float* p, __m256* a, __m256* b, __m256* c, __m256* d) {
  const __m256 r0 = load_pair(p, p + 16), r1 = load_pair(p + 4, p + 20);
  const __m256 r2 = load_pair(p + 8, p + 24), r3 = load_pair(p + 12, p + 28);
  const __m256 ab0 = _mm256_unpacklo_ps(r0, r1), cd0 = _mm256_unpackhi_ps(r0, r1);
  const __m256 ab2 = _mm256_unpacklo_ps(r2, r3), cd2 = _mm256_unpackhi_ps(r2, r3);
  *a = _mm256_shuffle_ps(ab0, ab2, 0x44);
  *b = _mm256_shuffle_ps(ab0, ab2, 0xee);
  *c = _mm256_shuffle_ps(cd0, cd2, 0x44);
  *d = _mm256_shuffle_ps(cd0, cd2, 0xee);
}
LILY_INLINE void load_streams(const float* p, F16 (&out)[4]) {
  load_4x8(p, &out[0].lo, &out[1].lo, &out[2].lo, &out[3].lo);
  load_4x8(p + 32, &out[0].hi, &out[1].hi, &out[2].hi, &out[3].hi);
}

}  // namespace lily::cpu::LILY_ISA
