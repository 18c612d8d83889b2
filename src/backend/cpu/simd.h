// Sixteen floats at a time: the one vector type that kernels are written in. An isa_*.cc defines
// LILY_ISA (a namespace, and which header below implements F16) and includes the kernels; the
// results are the same bits in every instruction set. A header defines kManyRegisters, whether it
// has room for sixteen sums of F16, and:
//
// - load, store: 16 floats, any alignment
// - load_n, store_n: the first n of 16; load_n fills with 0
// - add sub mul div fma: IEEE, one rounding each; sqrt abs
// - round: to nearest, ties to even
// - max(a, b): a > b ? a : b, so a NaN in b stays; min(a, b): a < b ? a : b
// - first_or(x, n, other): lanes from n on replaced
// - reduce_add, reduce_max: one fixed tree: lanes i and i + 8, then i and i + 4, i + 2, i + 1
// - load_bf16, store_bf16: as base/bf16.h
// - load_bf16_even, load_bf16_odd: from 32 bf16, those at even places, those at odd ones
// - store_i8: to nearest, ties to even, saturated; NaN and beyond 2^31 become -128
// - load_streams(p, out): out[s] lane i = p[4 i + s]
// - times_pow2(x, t): x * 2^n where t = n + 0x1.8p23, in two factors so that results may be
// subnormal
// - prefetch(p): asks for the cache line of p in the second-level cache
//
// exp, sigmoid, silu and softplus are our own: one written order with explicit fma, no library
// call. Coefficients are Chebyshev fits over the reduced range, rounded to float.
#pragma once

#include <cstdint>

#define LILY_INLINE inline __attribute__((always_inline))
#define LILY_INLINE_LAMBDA __attribute__((always_inline))

#if defined(LILY_ISA_AVX512)
#include "backend/cpu/simd_avx512.h"
#elif defined(LILY_ISA_AVX2)
#include "backend/cpu/simd_avx2.h"
#elif defined(LILY_ISA_NEON)
#include "backend/cpu/simd_neon.h"
#else
#include "backend/cpu/simd_portable.h"
#endif

namespace lily::cpu::LILY_ISA {

LILY_INLINE void prefetch(const void* p) {
  __builtin_prefetch(p, 0, 2);
}

LILY_INLINE F16 load_n(const float* p, int n) {
  float lanes[16] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
}
LILY_INLINE void store_n(float* p, F16 x, int n) {
  float lanes[16];
  store(lanes, x);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}

// e^x within 1.1 ulp; 0 below -104, infinity above 89, NaN stays. x = n ln 2 + r, e^r = 1 + r + r^2
// P(r).
LILY_INLINE F16 exp(F16 x) {
  const F16 shift = broadcast(0x1.8p23f);
  x = min(broadcast(89.0f), max(broadcast(-104.0f), x));
  const F16 shifted = fma(x, broadcast(0x1.715476p+0f), shift);
  const F16 n = sub(shifted, shift);
  F16 r = fma(n, broadcast(-0x1.62e43p-1f), x);
  r = fma(n, broadcast(0x1.05c61p-29f), r);
  F16 p = broadcast(0x1.6d117cp-10f);
  p = fma(p, r, broadcast(0x1.120be2p-7f));
  p = fma(p, r, broadcast(0x1.555518p-5f));
  p = fma(p, r, broadcast(0x1.5554dcp-3f));
  p = fma(p, r, broadcast(0.5f));
  p = fma(mul(p, r), r, r);
  return times_pow2(add(p, broadcast(1.0f)), shifted);
}

LILY_INLINE F16 one_plus_exp_minus(F16 x) {
  return add(broadcast(1.0f), exp(sub(zero(), x)));
}
LILY_INLINE F16 sigmoid(F16 x) {
  return div(broadcast(1.0f), one_plus_exp_minus(x));
}
LILY_INLINE F16 silu(F16 x) {
  return div(x, one_plus_exp_minus(x));
}

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|), never overflowing; log1p(u) = 2 atanh(u / (2 + u)).
LILY_INLINE F16 softplus(F16 x) {
  const F16 u = exp(sub(zero(), abs(x)));
  const F16 s = div(u, add(u, broadcast(2.0f)));
  const F16 t = mul(s, s);
  F16 q = broadcast(0.11612165f);
  q = fma(q, t, broadcast(0.108532876f));
  q = fma(q, t, broadcast(0.142961785f));
  q = fma(q, t, broadcast(0.19999853f));
  q = fma(q, t, broadcast(0.33333334f));
  const F16 twice = add(s, s);
  return add(max(zero(), x), fma(mul(twice, t), q, twice));
}

LILY_INLINE F16 rsqrt(F16 x) {
  return div(broadcast(1.0f), sqrt(x));
}

// Scalars by way of a vector, so that they are the same numbers.
LILY_INLINE float first_lane(F16 x) {
  float lanes[16];
  store(lanes, x);
  return lanes[0];
}
LILY_INLINE float exp(float x) {
  return first_lane(exp(broadcast(x)));
}
LILY_INLINE float sigmoid(float x) {
  return first_lane(sigmoid(broadcast(x)));
}
LILY_INLINE float rsqrt(float x) {
  return first_lane(rsqrt(broadcast(x)));
}

}  // namespace lily::cpu::LILY_ISA
