// How attention's scratch is laid out: what a thread needs for a group of queries, and the partial
// results that wait to be merged.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/vector_kernels.h"
#include "spec/model_spec.h"

namespace lily::cpu {

constexpr int kTileQueries =
    64;  // Queries in a group, at most; a KV head may serve no more than these.
constexpr int kGroupsPerThread = 4;  // With fewer groups than this a thread, spans become tasks.
constexpr int kLeastSlots = 8;       // Partial results a group can keep, at least.

// Unfinished softmaxes of up to kTileQueries queries.
struct Partials {
  float* mix;      // [kTileQueries, 256]
  float* largest;  // [kTileQueries]
  float* total;    // [kTileQueries]
  Partial at(std::int64_t i) const { return {mix + i * kHeadDim, largest + i, total + i}; }
};

constexpr std::int64_t kPartialsFloats = kTileQueries * (kHeadDim + 2);

inline Partials partials_at(float* base, std::int64_t index) {
  float* const p = base + index * kPartialsFloats;
  return {p, p + kTileQueries * kHeadDim, p + kTileQueries * (kHeadDim + 1)};
}

struct SpanScratch {
  float* scores;  // [kTileQueries, kAttentionSpan]
};

struct ThreadScratch {
  SpanScratch span;
  Partials all, next;
};

constexpr std::int64_t kScoreFloats = kTileQueries * kAttentionSpan;
constexpr std::size_t kAttentionThreadBytes =
    static_cast<std::size_t>(kScoreFloats + 2 * kPartialsFloats) * sizeof(float);

inline ThreadScratch thread_scratch_layout(float* base) {
  float* const partials = base + kScoreFloats;
  return {{base}, partials_at(partials, 0), partials_at(partials, 1)};
}

}  // namespace lily::cpu
