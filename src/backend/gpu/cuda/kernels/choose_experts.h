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

// The n-th largest of the numbers [8] of all lanes, where equal ones count once.
FN uint route_least(const uint* keys, uint n) {
  uint sorted[kRouteLane], least = 0;
  UNROLL for (uint j = 0; j < kRouteLane; j++) sorted[j] = keys[j];
  sort_down(sorted);
  ROLLED for (uint i = 0; i < n; i++) {
    least = __reduce_max_sync(0xffffffffu, sorted[0]);
    if (sorted[0] == least) {
      UNROLL for (uint j = 0; j + 1 < kRouteLane; j++) sorted[j] = sorted[j + 1];
      sorted[kRouteLane - 1] = 0;
    }
  }
  return least;
}
FN uint route_larger(const uint* keys, uint bound) {
  uint n = 0;
  UNROLL for (uint j = 0; j < kRouteLane; j++) n += keys[j] > bound ? 1 : 0;
  return __reduce_add_sync(0xffffffffu, n);
}
// Sets the bit of each lane's number that is among the n largest, of equal ones those that are
// first in the order of 32 j + lane, where more than n are as large as the n-th.
FN uint route_mask_of_equals(const uint* keys, uint n, uint least, uint lane) {
  uint larger = route_larger(keys, least);
  for (uint fewer = n; larger >= n; larger = route_larger(keys, least))
    least = route_least(keys, --fewer);
  uint room = n - larger, mask = 0;  // room: of those equal to the least.
  UNROLL for (uint j = 0; j < kRouteLane; j++) {
    const bool equal = keys[j] == least;
    const uint equals = __ballot_sync(0xffffffffu, equal);
    const uint before = __popc(equals & ((1u << lane) - 1));
    if (keys[j] > least || (equal && before < room)) mask |= 1u << j;
    room -= u_min(room, __popc(equals));
  }
  return mask;
}

// Which n logits are the largest, of equal ones those with lower ids: to.ids; to.weights: the
// logits. Number j of a lane is expert 32 j + lane.
FN void choose_ids(const uint* keys, uint n, Routing& to, uint lane) {
  const uint least = route_least(keys, n);
  uint mask = 0;
  UNROLL for (uint j = 0; j < kRouteLane; j++) mask |= keys[j] >= least ? 1u << j : 0u;
  if (__reduce_add_sync(0xffffffffu, __popc(mask)) != n)
    mask = route_mask_of_equals(keys, n, least, lane);
  uint place = 0;
  UNROLL for (uint j = 0; j < kRouteLane; j++) {
    const bool mine = (mask >> j & 1u) != 0;
    const uint all = __ballot_sync(0xffffffffu, mine);
    const uint at = place + __popc(all & ((1u << lane) - 1));
    if (mine) to.ids[at] = j * 32 + lane;
    if (mine) to.weights[at] = ordered_float(keys[j]);
    place += __popc(all);
  }
  if (lane == n) to.ids[n] = 0;
  lanes_barrier();
}
// Their weights, from the logits that choose_ids left in the place of weights. shared: the logit of
// the shared expert, which comes last.
FN void choose_weights(float shared, uint n, Routing& to, uint lane) {
  const float logit = lane < n ? to.weights[lane] : -3e38f, most = lanes_max(logit);
  const float weight = lane < n ? m_exp(logit - most) : 0.0f, total = lanes_sum(weight);
  if (lane < n) to.weights[lane] = weight / total;
  if (lane == n) to.weights[n] = m_sigmoid(shared);
  lanes_barrier();
}

// Of row t, from the router's logits; weights: they are wanted too.
FN void choose_experts(const RouteChooseParams& a, uint t, Routing& to, uint lane, bool weights) {
  const float* logits = a.logits + (ulong)t * a.n_experts;
  uint keys[kRouteLane];
  UNROLL for (uint j = 0; j < kRouteLane; j++) {
    const uint e = j * 32 + lane;
    keys[j] = e < a.n_experts ? ordered_bits(load_fresh(logits + e)) : 0u;
  }
  const float shared = load_fresh(a.shared_weight + t);
  choose_ids(keys, a.n_chosen, to, lane);
  if (weights) choose_weights(shared, a.n_chosen, to, lane);
}
