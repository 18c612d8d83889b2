// Arguments of rms_norm.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

struct RmsNormParams {
  DEV const float* x;     // [rows, n]
  DEV const float* norm;  // [n]
  DEV float* y;           // [rows, n]
  uint n;
  float eps;
};
LILY_PARAMS(RmsNormParams, 32);
