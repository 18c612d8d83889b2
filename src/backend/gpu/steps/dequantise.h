// Weights written out as bf16 before the product that reads them: the other way than
// dequantise_in_tile. Only so many at a time as the scratch holds.
#pragma once

#include "backend/gpu/recorder.h"

namespace lily::gpu {

// Weights that scratch holds.
std::size_t dequantised_weights(const ModelSpec& spec);

// Rows [first, first + n) of a matrix.
QuantMatrix rows_of(const QuantMatrix& m, int first, int n);

// A matrix of bf16 (bits 16) with the values of `m`, in scratch from weight `at` on. head_rows:
// where the pass has fewer head rows nothing is written.
QuantMatrix record_dequantise(Recorder& to, const PassControl* control, const QuantMatrix& m,
                              std::size_t at, int head_rows = 0);

}  // namespace lily::gpu
