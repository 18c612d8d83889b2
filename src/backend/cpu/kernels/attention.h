// Attention over the paged cache. Queries of one KV head share every key and value that is read.
//
// A row's softmax runs over spans of kAttentionSpan positions counted from position 0, each with
// its own largest score, and spans are merged in ascending order: what a row computes is a function
// of its position alone, whoever computes which span and whatever rows share the pass. A score adds
// its 256 products in the order of dims, positions in the lanes; a mix adds positions in order,
// dims in the lanes. Neither sums across lanes. Positions after the row's own are never multiplied:
// what lies there may be anything.
#pragma once

#include <limits>

#include "backend/cpu/kernels/math.h"
#include "backend/cpu/vector_kernels.h"
#include "spec/model_spec.h"

namespace lily::cpu::LILY_ISA {

constexpr int kPageRows = kAttentionSpan / kPagesPerSpan;
constexpr int kTileBytes = kLanes * kHeadDim * static_cast<int>(sizeof(std::uint16_t));

inline void norm_and_turn(const float* x, const float* norm, const float* cosines,
                          const float* sines, float scale, float eps, float* y) {
  constexpr int kPairs = kRotaryDims / 2;
  rms_norm(x, norm, y, kHeadDim, eps);
  for (int i = 0; i < kPairs; i += kLanes) {
    const F16 a = load(y + i), b = load(y + i + kPairs);
    const F16 c = load(cosines + i), s = load(sines + i);
    store(y + i, sub(mul(a, c), mul(b, s)));
    store(y + i + kPairs, add(mul(b, c), mul(a, s)));
  }
  for (int i = 0; i < kHeadDim; i += kLanes) store(y + i, mul(load(y + i), broadcast(scale)));
}

// tile [256 dims][16 positions] from 16 rows of keys.
inline void turn_keys(const std::uint16_t* keys, float* tile) {
  for (int d = 0; d < kHeadDim; d += kLanes) transpose_bf16(keys + d, kHeadDim, tile + d * kLanes);
}

// Scores of kN queries against 16 positions; positions from n_seen on get -infinity. Meanwhile the
// 8 KiB at `ahead` are fetched: at decode a key is used by eight queries and then never again, so
// waiting for memory would be most of the time.
template <int kN>
LILY_INLINE void score_queries(const float* q, const float* tile, int n_seen, const void* ahead,
                               float* scores) {
  F16 sum[kN];
  for (int h = 0; h < kN; ++h) sum[h] = zero();
  for (int d = 0; d < kHeadDim; d += 2) {
    prefetch(static_cast<const char*>(ahead) + d * (kTileBytes / kHeadDim));
    for (int e = d; e < d + 2; ++e) {
      const F16 key = load(tile + e * kLanes);
      for (int h = 0; h < kN; ++h) sum[h] = fma(broadcast(q[h * kHeadDim + e]), key, sum[h]);
    }
  }
  for (int h = 0; h < kN; ++h) {
    store(scores + h * kAttentionSpan,
          first_or(sum[h], n_seen, -std::numeric_limits<float>::infinity()));
  }
}

// mix [kN, 256] += weights [kN, n] times n values.
template <int kN>
LILY_INLINE void mix_values(const float* weights, const std::uint16_t* values, int n, float* mix) {
  for (int d = 0; d < kHeadDim; d += kLanes) {
    F16 sum[kN];
    for (int h = 0; h < kN; ++h) sum[h] = load(mix + h * kHeadDim + d);
    for (int p = 0; p < n; ++p) {
      const F16 value = load_bf16(values + p * kHeadDim + d);
      for (int h = 0; h < kN; ++h) {
        sum[h] = fma(broadcast(weights[h * kAttentionSpan + p]), value, sum[h]);
      }
    }
    for (int h = 0; h < kN; ++h) store(mix + h * kHeadDim + d, sum[h]);
  }
}

// f(first head, Count<n>) over the heads of a group, four at a time, then one by one.
template <int kN>
struct Count {
  static constexpr int kValue = kN;
};
template <typename F>
LILY_INLINE void for_heads(int group, F f) {
  int h = 0;
  for (; h + 4 <= group; h += 4) f(h, Count<4>());
  for (; h < group; ++h) f(h, Count<1>());
}

LILY_INLINE int clamp_count(std::int64_t n, int most) {
  return n < 0 ? 0 : n > most ? most : static_cast<int>(n);
}
// Positions of the span that row `row` sees.
LILY_INLINE int seen_by(const SpanTask& t, int row) {
  return clamp_count(t.first_position + row + 1, kAttentionSpan);
}

LILY_INLINE const std::uint16_t* row_at(const std::uint16_t* const (&pages)[kPagesPerSpan],
                                        int position) {
  return pages[position / kPageRows] + position % kPageRows * kHeadDim;
}

// What to fetch while the queries from head h on are scored: the next keys, then the values that go
// with these.
LILY_INLINE const void* ahead_of(const SpanTask& t, int at, int last, int row, int h) {
  if (row > 0) return t.tile;
  if (h > 0) return row_at(t.values, at);
  return at + kLanes < last ? static_cast<const void*>(row_at(t.keys, at + kLanes)) : t.tile;
}

inline void score_span(const SpanTask& t) {
  const int last = seen_by(t, t.n_rows - 1);
  for (int at = 0; at < last; at += kLanes) {
    turn_keys(row_at(t.keys, at), t.tile);
    for (int row = 0; row < t.n_rows; ++row) {
      const int n_seen = seen_by(t, row) - at;
      if (n_seen <= 0) continue;
      const float* const q = t.q + row * t.q_stride;
      float* const scores = t.scores + row * t.group * kAttentionSpan + at;
      for_heads(t.group, [&](int h, auto n) LILY_INLINE_LAMBDA {
        score_queries<n.kValue>(q + h * kHeadDim, t.tile, n_seen, ahead_of(t, at, last, row, h),
                                scores + h * kAttentionSpan);
      });
    }
  }
}

// Scores become exp(score - largest); lanes add in order, then the tree.
inline void weigh(float* scores, int n_seen, float* largest_out, float* total_out) {
  F16 most = load(scores);
  for (int i = kLanes; i < n_seen; i += kLanes) most = max(load(scores + i), most);
  const float top = reduce_max(most);
  F16 total = zero();
  for (int i = 0; i < n_seen; i += kLanes) {
    const F16 w = exp(sub(load(scores + i), broadcast(top)));
    store(scores + i, w);
    total = add(total, w);
  }
  *largest_out = top;
  *total_out = reduce_add(total);
}

inline void weigh_span(const SpanTask& t) {
  for (int row = 0; row < t.n_rows; ++row) {
    const int n_seen = seen_by(t, row);
    if (n_seen == 0) continue;
    for (int i = row * t.group; i < (row + 1) * t.group; ++i) {
      weigh(t.scores + i * kAttentionSpan, n_seen, t.largest + i, t.total + i);
      for (int d = 0; d < kHeadDim; d += kLanes) store(t.mix + i * kHeadDim + d, zero());
    }
  }
}

inline void mix_span(const SpanTask& t) {
  const int last = seen_by(t, t.n_rows - 1);
  for (int at = 0; at < last; at += kPageRows) {
    for (int row = 0; row < t.n_rows; ++row) {
      const int n = clamp_count(seen_by(t, row) - at, kPageRows);
      if (n == 0) continue;
      const float* const weights = t.scores + row * t.group * kAttentionSpan + at;
      float* const mix = t.mix + row * t.group * kHeadDim;
      for_heads(t.group, [&](int h, auto count) LILY_INLINE_LAMBDA {
        mix_values<count.kValue>(weights + h * kAttentionSpan, row_at(t.values, at), n,
                                 mix + h * kHeadDim);
      });
    }
  }
}

inline void attend(const SpanTask& t) {
  score_span(t);
  weigh_span(t);
  mix_span(t);
}

inline void merge(const Partial& into, const Partial& next) {
  const float top = *next.largest > *into.largest ? *next.largest : *into.largest;
  const float a = exp(*into.largest - top), b = exp(*next.largest - top);
  for (int d = 0; d < kHeadDim; d += kLanes) {
    const F16 kept = mul(load(into.mix + d), broadcast(a));
    store(into.mix + d, fma(load(next.mix + d), broadcast(b), kept));
  }
  *into.total = *into.total * a + *next.total * b;
  *into.largest = top;
}

inline void finish(const float* mix, float total, const float* gate, float* y) {
  const F16 scale = broadcast(1.0f / total);
  for (int d = 0; d < kHeadDim; d += kLanes) {
    store(y + d, mul(mul(load(mix + d), scale), sigmoid(load(gate + d))));
  }
}

inline AttentionKernels attention_kernels() {
  return {.norm_and_turn = norm_and_turn, .attend = attend, .merge = merge, .finish = finish};
}

}  // namespace lily::cpu::LILY_ISA
