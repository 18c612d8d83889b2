// Arguments of experts_apart.cc.
#pragma once

#include "backend/gpu/kernels/experts_params.h"

// Places first_place ... of a row: those before K are its chosen experts, K is the shared one.
struct ExpertsProductParams {
  ExpertMatrix matrix, shared_matrix;
  DEV const int* control;
  DEV const float* x;         // [T, cols], or [T, K, cols] with x_of_slots
  DEV const float* shared_x;  // [T, cols of the shared]
  DEV const int* experts;     // [T, K]
  DEV float* y;               // [T, K, rows]
  DEV float* shared_y;        // [T, shared_rows]
  uint rows, shared_rows;     // of one expert
  uint n_chosen, first_place, x_of_slots;
  uint unused;
};
LILY_PARAMS(ExpertsProductParams, 136);

struct ExpertsActivateParams {
  DEV const int* control;
  DEV const float* gate;         // [T, K, F]
  DEV const float* shared_gate;  // [T, Fs]
  DEV float* act;                // [T, K, F]: up, then act
  DEV float* shared_act;         // [T, Fs]
  uint width, shared_width, n_chosen;
  uint unused;
};
LILY_PARAMS(ExpertsActivateParams, 56);

struct ExpertsSumParams {
  DEV const int* control;
  DEV const float* out;            // [T, K, D]
  DEV const float* shared_out;     // [T, D]
  DEV const float* weights;        // [T, K]
  DEV const float* shared_weight;  // [T]
  DEV float* h;                    // [T, D]
  uint hidden, n_chosen;
};
LILY_PARAMS(ExpertsSumParams, 56);
