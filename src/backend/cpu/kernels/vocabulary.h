// Sweeps over a row of logits: largest and log-sum, the entries above a bound, weights at a
// temperature.
#pragma once

#include "backend/cpu/kernels/math.h"
#include "backend/cpu/sort_key.h"
#include "backend/cpu/vector_kernels.h"

namespace lily::cpu::LILY_ISA {

// 0 * x is 0 for a finite x and NaN otherwise.
inline bool all_finite(const float* x, std::int64_t n) {
  F16 zeros = zero();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) zeros = fma(load(x + i), zero(), zeros);
  if (i < n) zeros = fma(load_n(x + i, static_cast<int>(n - i)), zero(), zeros);
  return reduce_add(zeros) == 0.0f;
}

inline std::int64_t first_place(const float* x, std::int64_t n, float value) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (x[i] == value) return i;
  }
  return 0;  // Only where a NaN is among them.
}

inline F16 weight_of(F16 x, float largest, float temperature) {
  return exp(div(sub(x, broadcast(largest)), broadcast(temperature)));
}

inline float weights(const float* x, std::int64_t n, float largest, float temperature, float* y) {
  F16 sum = zero();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F16 w = weight_of(load(x + i), largest, temperature);
    if (y != nullptr) store(y + i, w);
    sum = add(sum, w);
  }
  const int tail = static_cast<int>(n - i);
  if (tail > 0) {
    const F16 w = first_or(weight_of(load_n(x + i, tail), largest, temperature), tail, 0.0f);
    if (y != nullptr) store_n(y + i, w, tail);
    sum = add(sum, w);
  }
  return reduce_add(sum);
}

inline ChunkStats stats(const float* x, std::int64_t n) {
  const float top = lily::cpu::LILY_ISA::largest(x, n);
  return {.largest = top,
          .sum = weights(x, n, top, 1.0f, nullptr),
          .at = static_cast<std::int32_t>(first_place(x, n, top)),
          .finite = all_finite(x, n) ? 1 : 0};
}

// Most blocks hold nothing above the bound, which their largest tells.
inline std::int64_t collect(const CollectTask& t) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < t.n; i += kLanes) {
    const std::int64_t end = i + kLanes < t.n ? i + kLanes : t.n;
    if (end - i == kLanes && reduce_max(load(t.x + i)) < t.low) continue;
    for (std::int64_t j = i; j < end; ++j) {
      if (!(t.x[j] >= t.low && t.x[j] < t.high)) continue;
      t.keys[count++] = sort_key(t.x[j], t.first_id + static_cast<std::int32_t>(j));
    }
  }
  return count;
}

inline VocabularyKernels vocabulary_kernels() {
  return {.stats = stats, .collect = collect, .weights = weights};
}

}  // namespace lily::cpu::LILY_ISA
