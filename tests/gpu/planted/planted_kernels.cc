// Kernels that do something wrong when `mode` says so, and small right ones beside them.
#include "tests/gpu/planted/planted.h"

#include "backend/gpu/dialect/dialect.h"

struct PlantedShared {
  float v[1024];
};

// Every thread adds what all wrote; mode 1: the barrier is missing, mode 2: the one behind is.
KERNEL(planted_sum, PlantedParams, PlantedShared, 1024) {
  for (uint round = 0; round < 2; round++) {
    sm.v[id.tid] = a.x[id.tid] + (float)round;
    if (a.mode != 1) group_barrier();
    float sum = 0.0f;
    for (uint i = 0; i < id.threads; i++) sum += sm.v[(id.tid + i) % id.threads];
    a.y[id.group.x * id.threads + id.tid] = sum;
    if (a.mode != 2) group_barrier();
  }
}

KERNEL(planted_copy, PlantedParams, NoShared, 1024) {
  const uint i = id.group.x * id.threads + id.tid;
  if (i < a.n) a.y[a.mode == 1 ? 0 : i] = a.x[i];
}

// n is believed: the caller says one too many.
KERNEL(planted_past_end, PlantedParams, NoShared, 1024) {
  for (uint i = id.tid; i < a.n; i += id.threads) {
    if (a.mode == 0) a.y[0] = a.x[i];
    if (a.mode == 1 && id.tid == a.n - 1) a.y[i] = 1.0f;
  }
}

KERNEL(planted_unwritten, PlantedParams, PlantedShared, 1024) {
  if (id.tid > 0) sm.v[id.tid] = a.x[id.tid];
  group_barrier();
  a.y[id.tid] = sm.v[id.tid];
}

KERNEL(planted_lanes_part, PlantedParams, NoShared, 1024) {
  float v = a.x[id.tid];
  if (a.mode == 0 || id.lane < 16) v = lanes_sum(v);
  a.y[id.tid] = v;
}

KERNEL(planted_lanes_places, PlantedParams, NoShared, 1024) {
  float v = a.x[id.tid];
  if (id.lane < 16) {
    v = lanes_sum(v);
  } else {
    v = lanes_sum(v);
  }
  a.y[id.tid] = v;
}

KERNEL(planted_barrier_return, PlantedParams, NoShared, 1024) {
  if (id.tid == 7) return;
  group_barrier();
  a.y[id.tid] = 1.0f;
}

KERNEL(planted_barrier_places, PlantedParams, NoShared, 1024) {
  if (id.tid < 32) {
    group_barrier();
  } else {
    group_barrier();
  }
  a.y[id.tid] = 1.0f;
}

struct PlantedCounterShared {
  counter n;
};
// y[0 .. 1] as counters: threads of all groups, and per group in threadgroup memory.
KERNEL(planted_counter, PlantedParams, PlantedCounterShared, 1024) {
  if (id.tid == 0) sm.n = 0;
  group_barrier();
  counter_add(&sm.n, 2u);
  group_barrier();
  if (id.tid == 0) counter_add((DEV counter*)a.y, sm.n);
}

// Lanes pass on through threadgroup memory; mode 1: a shuffle is taken for a barrier.
KERNEL(planted_lanes_order, PlantedParams, PlantedShared, 1024) {
  sm.v[id.tid] = a.x[id.tid];
  if (a.mode == 0) lanes_barrier();
  if (a.mode == 1) lanes_sum(1.0f);
  a.y[id.group.x * id.threads + id.tid] = sm.v[id.tid ^ 1u];
}

// y[8 i ..]: every function of one number.
KERNEL(planted_functions, PlantedParams, NoShared, 1024) {
  const uint i = id.group.x * id.threads + id.tid;
  if (i >= a.n) return;
  DEV float* y = a.y + 8 * i;
  const float v = a.x[i];
  y[0] = m_exp(v);
  y[1] = m_log(m_abs(v));
  y[2] = m_sigmoid(v);
  y[3] = m_silu(v);
  y[4] = m_softplus(v);
  y[5] = m_rsqrt(m_abs(v));
  y[6] = m_sin(v);
  y[7] = bf16_to_f(f_to_bf16(v));
}
