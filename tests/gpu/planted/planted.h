// Arguments of the planted kernels, and their table.
#pragma once

#include "backend/gpu/dialect/words.h"

struct PlantedParams {
  DEV const float* x;
  DEV float* y;
  uint n;
  uint mode;
};
LILY_PARAMS(PlantedParams, 24);

#define PLANTED_KERNELS(X)  \
  X(planted_sum)            \
  X(planted_copy)           \
  X(planted_past_end)       \
  X(planted_unwritten)      \
  X(planted_lanes_part)     \
  X(planted_lanes_places)   \
  X(planted_barrier_return) \
  X(planted_barrier_places) \
  X(planted_counter)        \
  X(planted_lanes_order)    \
  X(planted_functions)
