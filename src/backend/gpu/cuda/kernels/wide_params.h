// Arguments of the kernels on wide tiles: those of the shared kernels, and the activations as bf16.
#pragma once

#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/kernels/linear_params.h"

// to [rows, cols] bf16, 128 columns at a time in the order of wide_tile.h: x, or with a norm x
// divided by its root mean square and multiplied by it.
struct NarrowParams {
  DEV const int* control;
  DEV const float* x;
  DEV const float* norm;  // Null: none.
  DEV ushort* to;
  DEV ushort* rest;  // Null, or what rounding lost, as bf16 too.
  uint cols;
  float eps;
};

struct LinearWideParams {
  LinearParams linear;
  DEV const ushort* x;
  DEV const ushort* rest;  // route_wide.cu
};
struct ExpertsUpWideParams {
  ExpertsUpParams up;
  DEV const ushort* x;
};
