// Attention over the paged cache. Queries of one KV head share every key and value that is read.
//
// A row's softmax runs over spans of kAttentionSpan positions counted from position 0, each with
// its own largest score, and spans are merged in ascending order: what a row computes is a function
// of its position alone, whoever computes which span and whatever rows share the pass. A score adds
// its 256 products in the order of dims, positions in the lanes; a mix adds positions in order,
// dims in the lanes. Neither sums across lanes. Positions after the row's own are never multiplied:
// what lies there may be anything.
//
// Cycles a position, one row of eight queries from memory, of an EPYC Turin (fma alone: 256 with
// AVX2, 128 with AVX-512): 355 and 156. Four queries at a time with keys transposed on the way,
// fetched one block ahead: 400 and 366. Keys and values both fetched while scores are made: 393 and
// 287, because all reading then falls into half of the time. With AVX2 sums fill the registers;
// even and odd dims loaded together spill: 471.
#pragma once

#include <limits>

#include "backend/cpu/kernels/math.h"
#include "backend/cpu/vector_kernels.h"
#include "spec/model_spec.h"

namespace lily::cpu::LILY_ISA {

constexpr int kPageRows = kAttentionSpan / kPagesPerSpan;
constexpr int kBlockElements = kLanes * kHeadDim;  // Of the keys of 16 positions
// Heads that share what is loaded, and vectors of it side by side: as many sums as registers hold.
constexpr int kHeadsAtOnce = kManyRegisters ? 8 : 4;
constexpr int kVectorsAtOnce = kManyRegisters ? 2 : 1;

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

// sum[b][h] += factors[h * stride] * x[b]
template <int kN, int kB>
LILY_INLINE void add_products(const float* factors, int stride, const F16 (&x)[kB],
                              F16 (&sum)[kB][kN]) {
#pragma GCC unroll 8
  for (int h = 0; h < kN; ++h) {
    const F16 factor = broadcast(factors[h * stride]);
    for (int b = 0; b < kB; ++b) sum[b][h] = fma(factor, x[b], sum[b][h]);
  }
}

// Scores of kN queries against kBlocks times 16 positions; positions from n_seen on get -infinity.
// The values that go with them are asked for meanwhile, unless null.
template <int kN, int kBlocks>
LILY_INLINE void score_queries(const float* q, const std::uint16_t* keys, int n_seen,
                               const std::uint16_t* values, float* scores) {
  F16 sum[kBlocks][kN];
  for (int b = 0; b < kBlocks; ++b) {
    for (int h = 0; h < kN; ++h) sum[b][h] = zero();
  }
  for (int d = 0; d < kHeadDim; d += 2) {
    const std::uint16_t* const at = keys + d * kLanes;
    if (values != nullptr) {
      for (int b = 0; b < kBlocks; ++b) prefetch(values + b * kBlockElements + d * kLanes);
    }
    F16 key[kBlocks];
    for (int b = 0; b < kBlocks; ++b) key[b] = load_bf16_even(at + b * kBlockElements);
    add_products<kN, kBlocks>(q + d, kHeadDim, key, sum);
    for (int b = 0; b < kBlocks; ++b) key[b] = load_bf16_odd(at + b * kBlockElements);
    add_products<kN, kBlocks>(q + d + 1, kHeadDim, key, sum);
  }
  for (int b = 0; b < kBlocks; ++b) {
    for (int h = 0; h < kN; ++h) {
      store(scores + h * kAttentionSpan + b * kLanes,
            first_or(sum[b][h], n_seen - b * kLanes, -std::numeric_limits<float>::infinity()));
    }
  }
}

// mix [kN, 256] += weights [kN, n] times n values. A page of keys is asked for meanwhile, unless
// null.
template <int kN>
LILY_INLINE void mix_values(const float* weights, const std::uint16_t* values, int n,
                            const std::uint16_t* keys, float* mix) {
  constexpr int kVectors = kN == 1 ? 1 : kVectorsAtOnce;
  constexpr int kLine = 32;  // Elements; a page is 512 lines, so eight rounds of 64 positions do.
  for (int d = 0; d < kHeadDim; d += kVectors * kLanes) {
    F16 sum[kVectors][kN];
    for (int v = 0; v < kVectors; ++v) {
      for (int h = 0; h < kN; ++h) sum[v][h] = load(mix + h * kHeadDim + d + v * kLanes);
    }
    const int round = d / (kVectors * kLanes);
    const std::uint16_t* const ahead =
        keys != nullptr && round < 8 ? keys + round * kPageRows * kLine : nullptr;
    for (int p = 0; p < n; ++p) {
      if (ahead != nullptr) prefetch(ahead + p * kLine);
      F16 value[kVectors];
      for (int v = 0; v < kVectors; ++v)
        value[v] = load_bf16(values + p * kHeadDim + d + v * kLanes);
      add_products<kN, kVectors>(weights + p, kAttentionSpan, value, sum);
    }
    for (int v = 0; v < kVectors; ++v) {
      for (int h = 0; h < kN; ++h) store(mix + h * kHeadDim + d + v * kLanes, sum[v][h]);
    }
  }
}

// f(first head, Count<n>) over the heads of a group, as many at a time as may be, then one by one.
template <int kN>
struct Count {
  static constexpr int kValue = kN;
};
template <typename F>
LILY_INLINE void for_heads(int group, F f) {
  int h = 0;
  for (; h + kHeadsAtOnce <= group; h += kHeadsAtOnce) f(h, Count<kHeadsAtOnce>());
  for (; h < group; ++h) f(h, Count<1>());
}

LILY_INLINE int clamp_count(std::int64_t n, int most) {
  return n < 0 ? 0 : n > most ? most : static_cast<int>(n);
}
// Positions of the span that row `row` sees.
LILY_INLINE int seen_by(const SpanTask& t, int row) {
  return clamp_count(t.first_position + row + 1, kAttentionSpan);
}

LILY_INLINE const std::uint16_t* value_at(const SpanTask& t, int position) {
  return t.values[position / kPageRows] + position % kPageRows * kHeadDim;
}
// The block of keys that begins at `position`, a multiple of 16.
LILY_INLINE const std::uint16_t* keys_at(const SpanTask& t, int position) {
  return t.keys[position / kPageRows] + position % kPageRows * kHeadDim;
}

// All rows against kBlocks blocks from position `at` on.
template <int kBlocks>
LILY_INLINE void score_blocks(const SpanTask& t, int at) {
  const std::uint16_t* const keys = keys_at(t, at);
  for (int row = 0; row < t.n_rows; ++row) {
    const int n_seen = seen_by(t, row) - at;
    if (n_seen <= 0) continue;
    const float* const q = t.q + row * t.q_stride;
    float* const scores = t.scores + row * t.group * kAttentionSpan + at;
    for_heads(t.group, [&](int h, auto n) LILY_INLINE_LAMBDA {
      const bool first = row == 0 && h == 0;
      score_queries<n.kValue, kBlocks>(q + h * kHeadDim, keys, n_seen,
                                       first ? value_at(t, at) : nullptr,
                                       scores + h * kAttentionSpan);
    });
  }
}

inline void score_span(const SpanTask& t) {
  const int last = seen_by(t, t.n_rows - 1);
  int at = 0;
  for (; at + (kVectorsAtOnce - 1) * kLanes < last; at += kVectorsAtOnce * kLanes)
    score_blocks<kVectorsAtOnce>(t, at);
  if (at < last) score_blocks<1>(t, at);
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
        const std::uint16_t* const ahead =
            row == 0 && h == 0 ? t.next_keys[at / kPageRows] : nullptr;
        mix_values<count.kValue>(weights + h * kAttentionSpan, value_at(t, at), n, ahead,
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
