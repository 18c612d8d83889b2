// Arguments of linear_mma.cu.
#pragma once

#include "backend/gpu/kernels/linear_params.h"

struct LinearMmaParams {
  LinearParams linear;
  DEV const float* head_squares;  // [T, cols / 128, 4], what delta_step left; or null
  float head_eps;
  uint unused;
};
