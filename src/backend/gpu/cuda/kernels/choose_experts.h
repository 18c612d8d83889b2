// Which experts a row chose, from its logits, by one warp. Included after dialect.h and stage.h.
#pragma once

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/route_choose_params.h"

KERNEL_CONST uint kRouteLane = 8;  // Logits of a lane: up to 256 experts.

// Numbers in the order of the floats.
FN uint ordered_bits(float x) {
  const uint u = as_type<uint>(x);
  return (u & 0x80000000u) != 0 ? ~u : u | 0x80000000u;
}
FN float ordered_float(uint bits) {
  return as_type<float>((bits & 0x80000000u) != 0 ? bits & 0x7fffffffu : ~bits);
}

// What a row chose, by ascending id, the shared expert last.
struct Routing {
  uint ids[17];
  float weights[17];
};

// A lane's numbers in descending order: odd-even merge.
FN void sort_down(uint* v) {
  const uchar pairs[19][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {1, 3}, {4, 6},
                              {5, 7}, {1, 2}, {5, 6}, {0, 4}, {1, 5}, {2, 6}, {3, 7},
                              {2, 4}, {3, 5}, {1, 2}, {3, 4}, {5, 6}};
  UNROLL for (uint i = 0; i < 19; i++) {
    const uint x = v[pairs[i][0]], y = v[pairs[i][1]];
    v[pairs[i][0]] = u_max(x, y);
    v[pairs[i][1]] = u_min(x, y);
  }
}

// The largest of the numbers [8] of all lanes, and the n-th largest.
struct RouteRange {
  uint most, least;
};
FN RouteRange route_range(const uint* keys, uint n, uint lane) {
  uint sorted[kRouteLane];
  UNROLL for (uint j = 0; j < kRouteLane; j++) sorted[j] = keys[j];
  sort_down(sorted);
  RouteRange range = {0, 0};
  for (uint i = 0; i < n; i++) {
    range.least = __reduce_max_sync(0xffffffffu, sorted[0]);
    if (i == 0) range.most = range.least;
    const uint has = __ballot_sync(0xffffffffu, sorted[0] == range.least);
    if ((has & (0u - has)) == 1u << lane) {
      UNROLL for (uint j = 0; j + 1 < kRouteLane; j++) sorted[j] = sorted[j + 1];
      sorted[kRouteLane - 1] = 0;
    }
  }
  return range;
}

// The K largest of the logits of row t, of equal ones those with lower ids; by one warp.
FN void choose_experts(const RouteChooseParams& a, uint t, Routing& to, uint lane) {
  const float* logits = a.logits + (ulong)t * a.n_experts;
  const uint n = a.n_chosen, below = (1u << lane) - 1;
  uint keys[kRouteLane];
  UNROLL for (uint j = 0; j < kRouteLane; j++) {
    const uint e = j * 32 + lane;
    keys[j] = e < a.n_experts ? ordered_bits(load_fresh(logits + e)) : 0u;
  }
  const float shared = load_fresh(a.shared_weight + t);
  const RouteRange range = route_range(keys, n, lane);
  uint larger = 0;
  UNROLL for (uint j = 0; j < kRouteLane; j++) larger +=
      __popc(__ballot_sync(0xffffffffu, keys[j] > range.least));
  const float most = ordered_float(range.most);
  uint place = 0, room = n - larger;  // room: of those equal to the least.
  UNROLL for (uint j = 0; j < kRouteLane; j++) {
    const bool equal = keys[j] == range.least;
    const uint equals = __ballot_sync(0xffffffffu, equal);
    const bool mine = keys[j] > range.least || (equal && (uint)__popc(equals & below) < room);
    const uint all = __ballot_sync(0xffffffffu, mine);
    if (mine) {
      to.ids[place + __popc(all & below)] = j * 32 + lane;
      to.weights[place + __popc(all & below)] = m_exp(ordered_float(keys[j]) - most);
    }
    room -= u_min(room, __popc(equals));
    place += __popc(all);
  }
  lanes_barrier();
  const float weight = lane < n ? to.weights[lane] : 0.0f, total = lanes_sum(weight);
  if (lane < n) to.weights[lane] = weight / total;
  if (lane == n) {
    to.ids[n] = 0;
    to.weights[n] = m_sigmoid(shared);
  }
}
