// Matrices as kernels are told of them, and where tokens and head rows lie in PassControl.
#pragma once

#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/recorder.h"
#include "backend/gpu/steps/segment_blocks.h"

namespace lily::gpu {

static_assert(offsetof(PassControl, n_head_rows) == 8);
static_assert(offsetof(PassControl, tokens) == 4 * 516);
static_assert(offsetof(PassControl, head_rows) == 4 * 2564);

// A matrix as kernels are told of it. Bits 16: bf16, for products on tiles (steps/dequantise.h).
inline ExpertMatrix matrix_of(const QuantMatrix& m) {
  LILY_CHECK(m.layout == static_cast<std::uint32_t>(WeightLayout::kRowMajor));
  LILY_CHECK((m.bits == 4 || m.bits == 8 || m.bits == 16) && m.cols % kQuantGroup == 0);
  return {static_cast<const unsigned*>(m.codes), m.scales, m.biases, static_cast<unsigned>(m.cols),
          static_cast<unsigned>(m.bits)};
}

}  // namespace lily::gpu
