// Arguments of delta_step.cu: convolution and delta rule in one launch.
#pragma once

#include "backend/gpu/kernels/gdn_prepare_params.h"
#include "backend/gpu/kernels/gdn_scan_params.h"

struct DeltaStepParams {
  GdnPrepareParams prepare;
  GdnScanParams scan;
  uint fetch_early, unused;  // Not 0: nothing of this pass writes states and windows before.
};
