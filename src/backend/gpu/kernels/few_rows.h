// Products of four weight rows with up to eight rows of activations, by one simdgroup, fp32
// throughout. Included by kernels after dialect.h.
//
// A lane takes 16 bytes of codes a step, lane after lane: 512-byte reads. Its partial sum of a step
// is scale * sum(code x) + bias * sum(x). A sum depends on the two rows and the number of columns
// alone, so every kernel that multiplies this way gives the same bits.
#pragma once

#include "backend/gpu/kernels/quant.h"

KERNEL_CONST uint kFewWeightRows = 4;

template <uint kBits>
FN float few_dot(uint4 codes, THR const float* x) {
  if (kBits == 4) {
    return quant_dot4(
        codes.w, x + 24,
        quant_dot4(codes.z, x + 16, quant_dot4(codes.y, x + 8, quant_dot4(codes.x, x, 0.0f))));
  }
  return quant_dot8(
      codes.w, x + 12,
      quant_dot8(codes.z, x + 8, quant_dot8(codes.y, x + 4, quant_dot8(codes.x, x, 0.0f))));
}

// n floats from device memory, their sum and, where there is a norm, their squares: x becomes x *
// norm.
template <uint kN, bool kNorm>
FN float few_load(DEV const float* from, DEV const float* norm, THR float* x, THR float& squares) {
  DEV const float4* from4 = (DEV const float4*)from;
  DEV const float4* norm4 = (DEV const float4*)norm;
  float sum = 0.0f;
  UNROLL for (uint i = 0; i < kN / 4; i++) {
    const float4 v = from4[i];
    float x0 = v.x, x1 = v.y, x2 = v.z, x3 = v.w;
    if (kNorm) {
      squares = m_fma(x0, x0, m_fma(x1, x1, m_fma(x2, x2, m_fma(x3, x3, squares))));
      const float4 w = norm4[i];
      x0 *= w.x;
      x1 *= w.y;
      x2 *= w.z;
      x3 *= w.w;
    }
    x[4 * i] = x0;
    x[4 * i + 1] = x1;
    x[4 * i + 2] = x2;
    x[4 * i + 3] = x3;
    sum += (x0 + x1) + (x2 + x3);
  }
  return sum;
}

// A matrix and the four rows of it: row0 + r, no further than `last`.
struct FewWeights {
  DEV const uint* codes;
  DEV const ushort* scales;
  DEV const ushort* biases;
  ulong row0, last;
};

// Adds the lane's steps first, first + stride ... to sums [kX][4] and squares [kX]. x [kX] rows
// start at x + rows[t]; the first n of them count.
template <uint kBits, uint kX, bool kNorm>
FN void few_rows_of(const THR FewWeights& w, uint cols, uint first, uint stride, DEV const float* x,
                    THR const ulong* rows, uint n, DEV const float* norm, THR float* sums,
                    THR float* squares) {
  const uint kStep = 128 / kBits;  // weights of a lane and step: 32 or 16
  const uint steps = cols / kStep, groups = cols / 64;
  DEV const uint4* codes = (DEV const uint4*)w.codes;
  for (uint s = first; s < steps; s += stride) {
    uint4 words[kFewWeightRows];
    float scales[kFewWeightRows], biases[kFewWeightRows];
    UNROLL for (uint r = 0; r < kFewWeightRows; r++) {
      const ulong row = w.row0 + r < w.last ? w.row0 + r : w.last;
      const ulong group = row * groups + s / (64 / kStep);
      words[r] = codes[row * steps + s];
      scales[r] = bf16_to_f(w.scales[group]);
      biases[r] = bf16_to_f(w.biases[group]);
    }
    UNROLL for (uint t = 0; t < kX; t++) {
      if (t < n) {
        float v[kStep];
        const float v_sum =
            few_load<kStep, kNorm>(x + rows[t] + s * kStep, norm + s * kStep, v, squares[t]);
        UNROLL for (uint r = 0; r < kFewWeightRows; r++) {
          const float dot = few_dot<kBits>(words[r], v);
          THR float& sum = sums[t * kFewWeightRows + r];
          sum = m_fma(scales[r], dot, m_fma(biases[r], v_sum, sum));
        }
      }
    }
  }
}

template <uint kX, bool kNorm>
FN void few_rows(const THR FewWeights& w, uint bits, uint cols, uint first, uint stride,
                 DEV const float* x, THR const ulong* rows, uint n, DEV const float* norm,
                 THR float* sums, THR float* squares) {
  if (bits == 4) {
    few_rows_of<4, kX, kNorm>(w, cols, first, stride, x, rows, n, norm, sums, squares);
  } else {
    few_rows_of<8, kX, kNorm>(w, cols, first, stride, x, rows, n, norm, sums, squares);
  }
}
