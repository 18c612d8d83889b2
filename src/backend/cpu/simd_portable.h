// F16 in plain C++: what every instruction set must compute, lane by lane. simd.h says what the
// operations mean.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/bf16.h"

namespace lily::cpu::LILY_ISA {

inline constexpr bool kManyRegisters = false;

struct F16 {
  float v[16];
};

template <typename F>
LILY_INLINE F16 per_lane(F f) {
  F16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}

LILY_INLINE F16 load(const float* p) {
  return per_lane([&](int i) { return p[i]; });
}
LILY_INLINE void store(float* p, F16 x) {
  for (int i = 0; i < 16; ++i) p[i] = x.v[i];
}
LILY_INLINE F16 broadcast(float x) {
  return per_lane([&](int) { return x; });
}
LILY_INLINE F16 zero() {
  return broadcast(0.0f);
}

LILY_INLINE F16 add(F16 a, F16 b) {
  return per_lane([&](int i) { return a.v[i] + b.v[i]; });
}
LILY_INLINE F16 sub(F16 a, F16 b) {
  return per_lane([&](int i) { return a.v[i] - b.v[i]; });
}
LILY_INLINE F16 mul(F16 a, F16 b) {
  return per_lane([&](int i) { return a.v[i] * b.v[i]; });
}
LILY_INLINE F16 div(F16 a, F16 b) {
  return per_lane([&](int i) { return a.v[i] / b.v[i]; });
}
LILY_INLINE F16 fma(F16 a, F16 b, F16 c) {
  return per_lane([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
LILY_INLINE F16 max(F16 a, F16 b) {
  return per_lane([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
LILY_INLINE F16 min(F16 a, F16 b) {
  return per_lane([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
LILY_INLINE F16 sqrt(F16 x) {
  return per_lane([&](int i) { return std::sqrt(x.v[i]); });
}
LILY_INLINE F16 abs(F16 x) {
  return per_lane([&](int i) { return std::fabs(x.v[i]); });
}
LILY_INLINE F16 round(F16 x) {
  return per_lane([&](int i) { return std::nearbyintf(x.v[i]); });
}

LILY_INLINE F16 first_or(F16 x, int n, float other) {
  return per_lane([&](int i) { return i < n ? x.v[i] : other; });
}

LILY_INLINE float reduce_add(F16 x) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] = x.v[i] + x.v[i + half];
  }
  return x.v[0];
}
LILY_INLINE float reduce_max(F16 x) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
  }
  return x.v[0];
}

LILY_INLINE float pow2(std::int32_t exponent) {
  return std::bit_cast<float>((static_cast<std::uint32_t>(exponent) + 127u) << 23);
}
LILY_INLINE F16 times_pow2(F16 x, F16 shifted) {
  return per_lane([&](int i) {
    const auto n =
        static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted.v[i]) - 0x4b400000u);
    const std::int32_t half = n >> 1;
    return x.v[i] * pow2(half) * pow2(n - half);
  });
}

LILY_INLINE F16 load_bf16(const std::uint16_t* p) {
  return per_lane([&](int i) { return bf16_to_float(p[i]); });
}
LILY_INLINE F16 load_bf16_even(const std::uint16_t* p) {
  return per_lane([&](int i) { return bf16_to_float(p[2 * i]); });
}
LILY_INLINE F16 load_bf16_odd(const std::uint16_t* p) {
  return per_lane([&](int i) { return bf16_to_float(p[2 * i + 1]); });
}
LILY_INLINE void store_bf16(std::uint16_t* p, F16 x) {
  for (int i = 0; i < 16; ++i) p[i] = float_to_bf16(x.v[i]);
}

LILY_INLINE std::int8_t narrow_i8(float x) {
  if (!(x >= -2147483648.0f && x < 2147483648.0f)) return -128;
  const float r = std::nearbyintf(x);
  return static_cast<std::int8_t>(r > 127.0f ? 127.0f : r < -128.0f ? -128.0f : r);
}
LILY_INLINE void store_i8(std::int8_t* p, F16 x) {
  for (int i = 0; i < 16; ++i) p[i] = narrow_i8(x.v[i]);
}

LILY_INLINE void load_streams(const float* p, F16 (&out)[4]) {
  for (int s = 0; s < 4; ++s) out[s] = per_lane([&](int i) { return p[4 * i + s]; });
}
}  // namespace lily::cpu::LILY_ISA
