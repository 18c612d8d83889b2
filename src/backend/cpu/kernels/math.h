// Functions over arrays, and the norm that most steps begin with.
#pragma once

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd.h"

namespace lily::cpu::LILY_ISA {

// y[i] = f(x[i]), the tail through a padded vector.
template <typename F>
LILY_INLINE void map(const float* x, float* y, std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, f(load(x + i)));
  const int tail = static_cast<int>(n - i);
  if (tail > 0) store_n(y + i, f(load_n(x + i, tail)), tail);
}

inline void map_exp(const float* x, float* y, std::int64_t n) {
  map(x, y, n, [](F16 v) { return exp(v); });
}
inline void map_sigmoid(const float* x, float* y, std::int64_t n) {
  map(x, y, n, [](F16 v) { return sigmoid(v); });
}
inline void map_silu(const float* x, float* y, std::int64_t n) {
  map(x, y, n, [](F16 v) { return silu(v); });
}
inline void map_softplus(const float* x, float* y, std::int64_t n) {
  map(x, y, n, [](F16 v) { return softplus(v); });
}
inline void map_rsqrt(const float* x, float* y, std::int64_t n) {
  map(x, y, n, [](F16 v) { return rsqrt(v); });
}

// Lane l adds x[l], x[l + 16], ...; then the tree of reduce_add. The tail adds zeros.
inline float sum(const float* x, std::int64_t n) {
  F16 total = zero();
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) total = add(total, load(x + i));
  if (i < n) total = add(total, load_n(x + i, static_cast<int>(n - i)));
  return reduce_add(total);
}

// The largest; a NaN may win or lose.
inline float largest(const float* x, std::int64_t n) {
  F16 most = broadcast(x[0]);
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) most = max(load(x + i), most);
  const int tail = static_cast<int>(n - i);
  if (tail > 0) most = max(first_or(load_n(x + i, tail), tail, x[0]), most);
  return reduce_max(most);
}

inline void to_bf16(const float* x, std::uint16_t* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store_bf16(y + i, load(x + i));
  if (i == n) return;
  std::uint16_t tail[16];
  store_bf16(tail, load_n(x + i, static_cast<int>(n - i)));
  for (std::int64_t t = i; t < n; ++t) y[t] = tail[t - i];
}

inline void from_bf16(const std::uint16_t* x, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, load_bf16(x + i));
  if (i == n) return;
  std::uint16_t tail[16] = {};
  for (std::int64_t t = i; t < n; ++t) tail[t - i] = x[t];
  store_n(y + i, load_bf16(tail), static_cast<int>(n - i));
}

LILY_INLINE float sum_of_squares(const float* x, std::int64_t n) {
  F16 total = zero();
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const F16 v = load(x + i);
    total = fma(v, v, total);
  }
  if (i < n) {
    const F16 v = load_n(x + i, static_cast<int>(n - i));
    total = fma(v, v, total);
  }
  return reduce_add(total);
}

// 1 / sqrt(mean(x^2) + eps)
LILY_INLINE float inverse_rms(const float* x, std::int64_t n, float eps) {
  return rsqrt(sum_of_squares(x, n) / static_cast<float>(n) + eps);
}

inline void rms_norm(const float* x, const float* weight, float* y, std::int64_t n, float eps) {
  const F16 scale = broadcast(inverse_rms(x, n, eps));
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const F16 v = mul(load(x + i), scale);
    store(y + i, weight == nullptr ? v : mul(v, load(weight + i)));
  }
  const int tail = static_cast<int>(n - i);
  if (tail == 0) return;
  const F16 v = mul(load_n(x + i, tail), scale);
  store_n(y + i, weight == nullptr ? v : mul(v, load_n(weight + i, tail)), tail);
}

inline MathKernels math_kernels() {
  return {.exp = map_exp,
          .sigmoid = map_sigmoid,
          .silu = map_silu,
          .softplus = map_softplus,
          .rsqrt = map_rsqrt,
          .sum = sum,
          .largest = largest,
          .to_bf16 = to_bf16,
          .from_bf16 = from_bf16,
          .rms_norm = rms_norm};
}

}  // namespace lily::cpu::LILY_ISA
