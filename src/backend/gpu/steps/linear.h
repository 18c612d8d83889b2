// Products with quantised matrices, as several steps need them: up to four matrices, one launch.
#pragma once

#include <initializer_list>

#include "backend/gpu/kernels/linear_params.h"
#include "backend/gpu/recorder.h"

namespace lily::gpu {

// y [T, matrix.rows] = x W^T, or += .
struct LinearOutput {
  const QuantMatrix& matrix;
  float* y;
};

// Which rows of x are multiplied.
struct LinearInput {
  const PassControl* control;
  const float* x;               // [T, cols]
  const float* norm = nullptr;  // [cols]: x is normed first; null: y += x W^T instead of y =
  float eps = 0.0f;
  int head_from = -1;  // From 0 on: the block of head rows that starts here, not the pass's rows.
};

// kRows: a row's bits do not depend on other rows, fp32. kTiles: on tiles, operands bf16. kEither:
// the one or the other by the number of rows, of which kTiles needs more than kFewRows.
enum class LinearWay { kRows, kTiles, kEither };

// The way that passes of so many rows take.
LinearWay linear_way(const Recorder& to);

// For kernels with a product of their own: all rows, however many there are.
LinearParams linear_params(const LinearInput& in, const LinearOutput& out);

void record_linear(Recorder& to, LinearWay way, const LinearInput& in,
                   std::initializer_list<LinearOutput> out);

// Rows of the pass that a block of head rows can have.
int head_block_bound(const Recorder& to, int first);

}  // namespace lily::gpu
