// Arguments of delta_project.cu and delta_step.cu. delta_chunks.cu and delta_scan.cu have
// gdn_scan.cc's.
#pragma once

#include "backend/gpu/cuda/kernels/linear_mma_params.h"
#include "backend/gpu/kernels/gdn_prepare_params.h"
#include "backend/gpu/kernels/gdn_scan_params.h"

// fetch_early: not 0 where nothing of this pass writes states and windows before.
struct DeltaProjectParams {
  LinearMmaParams product;  // Parts: q, k, v; z; b; a.
  GdnPrepareParams prepare;
  uint z_sigmoid, fetch_early;
};
struct DeltaStepParams {
  GdnPrepareParams prepare;
  GdnScanParams scan;
  DEV float* head_squares;  // [T, Hv, 4]: sums of o o over 32 columns each
  uint fetch_early, unused;
};

// Shared memory of their groups.
constexpr unsigned kDeltaChunksBytes = 48128, kDeltaScanBytes = 205424;
