// Arguments of attention_many.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

// Shapes: AttentionArgs in backend/args.h.
struct AttentionParams {
  DEV const int* control;     // PassControl
  DEV const float* q;         // [T, Hq, 256], 16-byte aligned as all of these
  DEV const float* q_gate;    // [T, Hq, 2, 256], the second half is read
  DEV ushort* pages;          // [pages, Hkv, 2, 64, 256] bf16
  DEV const int* page_table;  // [sequences, table_stride]
  DEV float* y;               // [T, Hq, 256]
  uint table_stride;
  uint n_q_heads, n_kv_heads;
  uint tile_heads;  // Hq / Hkv rounded up to a power of two
};
LILY_PARAMS(AttentionParams, 64);
