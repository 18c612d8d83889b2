// F16 for 64-bit ARM: sixteen floats in four registers. The operations and their exact results are
// those of simd_portable.h; simd.h says what they mean and builds the functions on top.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace lily::cpu::LILY_ISA {

inline constexpr bool kManyRegisters = false;

struct F16 {
  float32x4_t a, b, c, d;  // Lanes 0..3, 4..7, 8..11, 12..15.
};

LILY_INLINE F16 load(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
LILY_INLINE void store(float* p, F16 x) {
  vst1q_f32(p, x.a);
  vst1q_f32(p + 4, x.b);
  vst1q_f32(p + 8, x.c);
  vst1q_f32(p + 12, x.d);
}
LILY_INLINE F16 broadcast(float x) {
  const float32x4_t v = vdupq_n_f32(x);
  return {v, v, v, v};
}
LILY_INLINE F16 zero() {
  return broadcast(0.0f);
}

LILY_INLINE F16 add(F16 x, F16 y) {
  return {vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c), vaddq_f32(x.d, y.d)};
}
LILY_INLINE F16 sub(F16 x, F16 y) {
  return {vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b), vsubq_f32(x.c, y.c), vsubq_f32(x.d, y.d)};
}
LILY_INLINE F16 mul(F16 x, F16 y) {
  return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c), vmulq_f32(x.d, y.d)};
}
LILY_INLINE F16 div(F16 x, F16 y) {
  return {vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b), vdivq_f32(x.c, y.c), vdivq_f32(x.d, y.d)};
}
LILY_INLINE F16 fma(F16 x, F16 y, F16 z) {
  return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c),
          vfmaq_f32(z.d, x.d, y.d)};
}
// fmax and fmin would let a NaN in either operand through, and order -0 before 0.
LILY_INLINE float32x4_t greater(float32x4_t x, float32x4_t y) {
  return vbslq_f32(vcgtq_f32(x, y), x, y);
}
LILY_INLINE float32x4_t smaller(float32x4_t x, float32x4_t y) {
  return vbslq_f32(vcltq_f32(x, y), x, y);
}
LILY_INLINE F16 max(F16 x, F16 y) {
  return {greater(x.a, y.a), greater(x.b, y.b), greater(x.c, y.c), greater(x.d, y.d)};
}
LILY_INLINE F16 min(F16 x, F16 y) {
  return {smaller(x.a, y.a), smaller(x.b, y.b), smaller(x.c, y.c), smaller(x.d, y.d)};
}
LILY_INLINE F16 sqrt(F16 x) {
  return {vsqrtq_f32(x.a), vsqrtq_f32(x.b), vsqrtq_f32(x.c), vsqrtq_f32(x.d)};
}
LILY_INLINE F16 abs(F16 x) {
  return {vabsq_f32(x.a), vabsq_f32(x.b), vabsq_f32(x.c), vabsq_f32(x.d)};
}
LILY_INLINE F16 round(F16 x) {
  return {vrndnq_f32(x.a), vrndnq_f32(x.b), vrndnq_f32(x.c), vrndnq_f32(x.d)};
}

LILY_INLINE F16 first_or(F16 x, int n, float other) {
  constexpr std::int32_t kLane[4] = {0, 1, 2, 3};
  const int32x4_t lane = vld1q_s32(kLane);
  const auto part = [&](float32x4_t v, int first) {
    return vbslq_f32(vcltq_s32(lane, vdupq_n_s32(n - first)), v, vdupq_n_f32(other));
  };
  return {part(x.a, 0), part(x.b, 4), part(x.c, 8), part(x.d, 12)};
}

LILY_INLINE float reduce_add(F16 x) {
  const float32x4_t s = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
  return vaddv_f32(vadd_f32(vget_low_f32(s), vget_high_f32(s)));
}
LILY_INLINE float reduce_max(F16 x) {
  const float32x4_t s = greater(greater(x.a, x.c), greater(x.b, x.d));
  const float32x4_t t = greater(s, vextq_f32(s, s, 2));
  return vgetq_lane_f32(greater(t, vextq_f32(t, t, 1)), 0);
}

LILY_INLINE float32x4_t pow2(int32x4_t exponent) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(exponent, vdupq_n_s32(127)), 23));
}
LILY_INLINE float32x4_t times_pow2(float32x4_t x, float32x4_t shifted) {
  const int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32(0x4b400000));
  const int32x4_t half = vshrq_n_s32(n, 1);
  return vmulq_f32(vmulq_f32(x, pow2(half)), pow2(vsubq_s32(n, half)));
}
LILY_INLINE F16 times_pow2(F16 x, F16 shifted) {
  return {times_pow2(x.a, shifted.a), times_pow2(x.b, shifted.b), times_pow2(x.c, shifted.c),
          times_pow2(x.d, shifted.d)};
}

LILY_INLINE float32x4_t widen_bf16(uint16x4_t bits) {
  return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
}
LILY_INLINE F16 load_bf16(const std::uint16_t* p) {
  return {widen_bf16(vld1_u16(p)), widen_bf16(vld1_u16(p + 4)), widen_bf16(vld1_u16(p + 8)),
          widen_bf16(vld1_u16(p + 12))};
}
LILY_INLINE uint32x4_t load_words(const std::uint16_t* p) {
  return vreinterpretq_u32_u16(vld1q_u16(p));
}
LILY_INLINE F16 load_bf16_even(const std::uint16_t* p) {
  const auto part = [&](int i) {
    return vreinterpretq_f32_u32(vshlq_n_u32(load_words(p + 8 * i), 16));
  };
  return {part(0), part(1), part(2), part(3)};
}
LILY_INLINE F16 load_bf16_odd(const std::uint16_t* p) {
  const auto part = [&](int i) {
    return vreinterpretq_f32_u32(vandq_u32(load_words(p + 8 * i), vdupq_n_u32(0xffff0000u)));
  };
  return {part(0), part(1), part(2), part(3)};
}
// bfcvt rounds the same way, but not all processors have it.
LILY_INLINE uint16x4_t narrow_bf16(float32x4_t x) {
  const uint32x4_t bits = vreinterpretq_u32_f32(x);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, odd), vdupq_n_u32(0x7fff));
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16);
}
LILY_INLINE void store_bf16(std::uint16_t* p, F16 x) {
  vst1_u16(p, narrow_bf16(x.a));
  vst1_u16(p + 4, narrow_bf16(x.b));
  vst1_u16(p + 8, narrow_bf16(x.c));
  vst1_u16(p + 12, narrow_bf16(x.d));
}

// The conversion saturates and makes NaN 0; from 2^31 on and for NaN the least integer is wanted.
LILY_INLINE int16x4_t nearest_i16(float32x4_t x) {
  const uint32x4_t fits = vcltq_f32(x, vdupq_n_f32(2147483648.0f));
  return vqmovn_s32(vbslq_s32(fits, vcvtnq_s32_f32(x), vdupq_n_s32(INT32_MIN)));
}
LILY_INLINE void store_i8(std::int8_t* p, F16 x) {
  vst1_s8(p, vqmovn_s16(vcombine_s16(nearest_i16(x.a), nearest_i16(x.b))));
  vst1_s8(p + 8, vqmovn_s16(vcombine_s16(nearest_i16(x.c), nearest_i16(x.d))));
}

LILY_INLINE void load_streams(const float* p, F16 (&out)[4]) {
  const float32x4x4_t a = vld4q_f32(p), b = vld4q_f32(p + 16), c = vld4q_f32(p + 32),
                      d = vld4q_f32(p + 48);
  for (int s = 0; s < 4; ++s) out[s] = {a.val[s], b.val[s], c.val[s], d.val[s]};
}

}  // namespace lily::cpu::LILY_ISA
