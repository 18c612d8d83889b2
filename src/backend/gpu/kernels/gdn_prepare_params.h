// Arguments of gdn_prepare.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

// Shapes: GdnPrepareArgs in backend/args.h.
struct GdnPrepareParams {
  DEV const int* control;        // PassControl
  DEV const float* qkv;          // [T, conv_dim], 16-byte aligned as all of these
  DEV const float* b;            // [T, Hv]
  DEV const float* a;            // [T, Hv]
  DEV const float* conv_weight;  // [conv_dim, 4]
  DEV const float* a_log;        // [Hv]
  DEV const float* dt_bias;      // [Hv]
  DEV float* windows;            // slot s: [3, conv_dim] at s * slot_floats
  DEV float* q;                  // [T, Hk, 128]
  DEV float* k;                  // [T, Hk, 128]
  DEV float* v;                  // [T, Hv, 128]
  DEV float* decay;              // [T, Hv]
  DEV float* beta;               // [T, Hv]
  uint slot_floats;
  uint n_key_heads, n_value_heads;
  float eps;
};
LILY_PARAMS(GdnPrepareParams, 120);
