// Arguments of route_choose.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

struct RouteChooseParams {
  DEV const int* control;
  DEV const float* h;       // [T, D]
  DEV const float* norm;    // [D]
  DEV const float* logits;  // [T, E]
  DEV float* x;             // [T, D]
  DEV int* experts;         // [T, K]
  DEV float* weights;       // [T, K]
  DEV float*
      shared_weight;  // [T]: the logit of the shared expert's gate, which becomes its sigmoid
  uint hidden, n_experts, n_chosen;
  float eps;
};
LILY_PARAMS(RouteChooseParams, 80);
