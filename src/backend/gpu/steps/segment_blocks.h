// What the mixers' recorders share: how many blocks of rows a pass can have, and the layout of
// PassControl that kernels rely on (kernels/pass.h).
#pragma once

#include <algorithm>
#include <cstddef>

#include "backend/args.h"
#include "base/check.h"

namespace lily::gpu {

static_assert(offsetof(PassControl, n_rows) == 0 && offsetof(PassControl, n_segments) == 4);
static_assert(offsetof(PassControl, segments) == 16 && sizeof(Segment) == 32);
static_assert(offsetof(Segment, first_row) == 0 && offsetof(Segment, n_rows) == 4);
static_assert(offsetof(Segment, position) == 8 && offsetof(Segment, sequence) == 12);
static_assert(offsetof(Segment, state_in) == 16 && offsetof(Segment, state_out) == 20);
static_assert(offsetof(Segment, snapshots) == 24);

inline const std::int32_t* words_of(const PassControl* control) {
  return reinterpret_cast<const std::int32_t*>(control);
}

// Segments that a pass of so many rows can have: each has a row.
inline unsigned segments_bound(int rows_bound) {
  return static_cast<unsigned>(std::min(kMaxSegments, rows_bound));
}

// Blocks of `size` rows when each segment is cut from its start: a segment of n rows has at most
// 1 + (n - 1) / size.
inline unsigned blocks_bound(int rows_bound, int size) {
  const int segments = std::min(kMaxSegments, rows_bound);
  return static_cast<unsigned>(segments + (rows_bound - segments) / size);
}

// A layer's part of the first slot, and floats from slot to slot.
struct SlotLayout {
  float* first;
  unsigned stride;
};
inline SlotLayout slots_of(const StateLayer& state, std::int64_t offset) {
  LILY_CHECK(state.slot_bytes % 16 == 0 && offset % 16 == 0);
  LILY_CHECK(state.slot_bytes / 4 <= std::int64_t{UINT32_MAX});
  return {reinterpret_cast<float*>(state.base + offset),
          static_cast<unsigned>(state.slot_bytes / 4)};
}

inline std::size_t times(int rows, int width) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
}

inline unsigned groups_of(int n, int size) {
  return static_cast<unsigned>((n + size - 1) / size);
}

}  // namespace lily::gpu
