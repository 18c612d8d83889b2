// Arguments of head_states.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

struct HeadStatesParams {
  DEV const int* control;
  DEV const float* h;     // [T, D]
  DEV const float* norm;  // [D]
  DEV float* states;      // [n_head_rows, D]
  uint hidden, first;
  float eps;
  uint unused;
};
LILY_PARAMS(HeadStatesParams, 48);
