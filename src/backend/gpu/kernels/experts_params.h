// Arguments of experts_few.cc, experts_sort.cc, experts_tile.cc and experts_combine.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

// A matrix, row-major as spec/layout.h has it. Of the routed experts: [E * rows of one, cols].
struct ExpertMatrix {
  DEV const uint* codes;
  DEV const ushort* scales;
  DEV const ushort* biases;
  uint cols, bits;
};

// Rows by expert, for the kernels on tiles: what experts_sort wrote, and the experts that a launch
// has, first_expert .. end_expert - 1, whose matrices begin with the first one's.
struct ExpertBlocks {
  DEV const uint* slots;
  DEV const uint* blocks;
  uint n_blocks;    // of routed experts in the grid; those of the shared one follow
  uint block_rows;  // rows of a block at most
  uint first_expert, end_expert;
};

// act = silu(x gate^T) * (x up^T).
struct ExpertsUpParams {
  ExpertMatrix gate, up, shared_gate, shared_up;
  DEV const int* control;
  DEV const float* x;      // [T, D]
  DEV const int* experts;  // [T, K]; experts_few_up
  ExpertBlocks blocks;     // experts_tile_up
  DEV float* act;                                 // [T, K, F]
  DEV float* shared_act;                          // [T, Fs]
  uint width, shared_width, n_experts, n_chosen;  // F, Fs, E, K
};
LILY_PARAMS(ExpertsUpParams, 216);

// experts_few_down: h += sum. experts_tile_down: out, for experts_combine.
struct ExpertsDownParams {
  ExpertMatrix down, shared_down;
  DEV const int* control;
  DEV const float* act;            // [T, K, F]
  DEV const float* shared_act;     // [T, Fs]
  DEV const int* experts;          // [T, K]
  DEV const float* weights;        // [T, K]
  DEV const float* shared_weight;  // [T]
  ExpertBlocks blocks;
  DEV float* h;     // [T, D]
  DEV ushort* out;  // bf16 [T * K, D], then [T, D] of the shared expert from row shared_at
  uint hidden, n_experts, n_chosen, shared_at;
};
LILY_PARAMS(ExpertsDownParams, 176);

struct ExpertsCombineParams {
  DEV const int* control;
  DEV const ushort* out;           // as in ExpertsDownParams
  DEV const float* weights;        // [T, K]
  DEV const float* shared_weight;  // [T]
  DEV float* h;                    // [T, D]
  uint hidden, n_chosen, shared_at;
  uint unused;
};
LILY_PARAMS(ExpertsCombineParams, 56);

struct ExpertsSortParams {
  DEV const int* control;
  DEV const int* experts;  // [T, K]
  DEV uint* slots;   // [T * K]: slots (row * K + place) by ascending expert, ascending within it
  DEV uint* blocks;  // [n_blocks, 3]: expert, its first place in slots, places (or 0)
  uint n_experts, n_chosen;
  uint block_rows;  // places of a block at most
  uint unused;
};
LILY_PARAMS(ExpertsSortParams, 48);
