// Arguments of attention_prepare.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

// Shapes: AttentionPrepareArgs in backend/args.h.
struct AttentionPrepareParams {
  DEV const int* control;       // PassControl
  DEV const float* q_gate;      // [T, Hq, 2, 256], 16-byte aligned as all of these
  DEV const float* k;           // [T, Hkv, 256]
  DEV const float* v;           // [T, Hkv, 256]
  DEV const float* q_norm;      // [256]
  DEV const float* k_norm;      // [256]
  DEV const uint* frequencies;  // [32] doubles, low word first
  DEV ushort* pages;            // [pages, Hkv, 2, 64, 256] bf16
  DEV const int* page_table;    // [sequences, table_stride]
  DEV float* q;                 // [T, Hq, 256]
  DEV float* keys;              // [T, Hkv, 256]: between kernels of their own; else not used
  uint table_stride;
  uint n_q_heads, n_kv_heads;
  float rope_magnitude, eps;
  uint unused;
};
LILY_PARAMS(AttentionPrepareParams, 112);
