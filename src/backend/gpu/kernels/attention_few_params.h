// Arguments of attention_few.cc and attention_merge.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

// Parts of a short context; the most parts that a long one has.
enum { kAttentionParts = 64, kAttentionMaxParts = 512 };

// Shapes: AttentionArgs and AttentionPrepareArgs in backend/args.h.
struct AttentionFewParams {
  DEV const int* control;     // PassControl
  DEV const float* q;         // [T, Hq, 256], 16-byte aligned as all of these
  DEV const float* q_gate;    // [T, Hq, 2, 256]
  DEV ushort* pages;          // [pages, Hkv, 2, 64, 256] bf16
  DEV const int* page_table;  // [sequences, table_stride]
  DEV float* y;               // [T, Hq, 256]
  // What each part of the cache gives; parts that a row does not have are not written.
  DEV float* mixes;  // [T, Hq, n_parts, 256]: sum of exp(score - largest) value
  DEV float* sums;   // [T, Hq, n_parts, 2]: the largest score, sum of exp(score - largest)
  // Of passes of one row, which then prepare it themselves. k null: q and the pages hold all.
  DEV const float* k;           // [T, Hkv, 256]
  DEV const float* v;           // [T, Hkv, 256]
  DEV const float* q_norm;      // [256]
  DEV const float* k_norm;      // [256]
  DEV const uint* frequencies;  // [32] doubles, low word first
  uint table_stride;
  uint n_q_heads, n_kv_heads;
  uint n_parts;     // At most kAttentionMaxParts.
  uint block_from;  // Contexts of so many positions are cut into blocks of block_pages pages.
  uint block_pages;
  uint scattered;  // Not 0: neighbouring lanes read bytes that are far apart.
  float rope_magnitude, eps;
  uint unused;
};
LILY_PARAMS(AttentionFewParams, 144);
