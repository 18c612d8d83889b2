// Arguments of gdn_scan.cc and gdn_norm.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

// Shapes: GdnScanArgs in backend/args.h.
struct GdnScanParams {
  DEV const int* control;  // PassControl
  DEV const float* q;      // [T, Hk, 128], 16-byte aligned as all of these
  DEV const float* k;      // [T, Hk, 128]
  DEV const float* v;      // [T, Hv, 128]
  DEV const float* decay;  // [T, Hv]
  DEV const float* beta;   // [T, Hv]
  DEV const float* z;      // [T, Hv, 128]
  DEV const float* norm;   // [128]
  DEV float* states;       // slot s: [Hv, 128 (key), 128 (value)] at s * slot_floats
  DEV float* y;            // [T, Hv, 128]
  uint slot_floats;
  uint n_key_heads, n_value_heads;
  uint z_sigmoid;
  float eps;
  uint unused;
};
LILY_PARAMS(GdnScanParams, 104);
