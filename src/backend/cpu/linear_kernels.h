// What the kernels that multiply quantised matrices take: activations packed group by group, and
// jobs. A job is a few blocks of a matrix in kInterleaved16 times a list of rows. Order of a
// result, in every instruction set and for any list of rows:
//
// int8, acc = 0, then for each group g in order:
//   acc = fma(s_g * sx_g, float(dot_g), acc)
//   acc = fma(c_g, sx_g * float(sum_g), acc)
//   dot_g = sum of (code - k) * xcode, exact
//   c_g = fma(k, s_g, b_g)
//   k = 8 for 4-bit codes, 136 for 8-bit ones
// exact, acc = 0, then for each group g in order:
//   acc = fma(s_g, a_low + a_high, acc)
//   acc = fma(b_g, sum_g, acc)
//   a_low = fma(float(code), x, a_low) over columns 8v .. 8v + 3 of the group for v = 0 .. 7
//   a_high the same over columns 8v + 4 .. 8v + 7
//
// s_g and b_g are a weight's scale and bias, sx_g and sum_g those of the packed row. Taking k off
// the codes is the same product ( s (c - k) + (b + s k) = s c + b ) with smaller terms, and it
// keeps a lane of 32 products in 16 bits: see linear_avx2.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "spec/model_spec.h"

namespace lily::cpu {

// 64 columns of a row as int8. m = max |x|: scale = m / 127, code = nearest(x * (127 / m)), ties to
// even. All zero where m < 2^-100. scale and scaled_sum are NaN, and codes 0, where a value is not
// finite.
struct Int8Group {
  std::int8_t codes[kQuantGroup];
  float scale;
  float scaled_sum;         // scale * float(sum)
  std::int16_t centre[2];   // -8 * the sum of codes 4i, 4i + 1; of codes 4i + 2, 4i + 3
  std::int32_t centre_all;  // -8 * the sum of all codes
};
static_assert(sizeof(Int8Group) == 80);

// 64 columns of a row as they are, and their sum: lane l adds columns l, 16 + l, 32 + l, 48 + l,
// then F16's tree.
struct F32Group {
  float x[kQuantGroup];
  float sum;
  float unused[3];
};
static_assert(sizeof(F32Group) == 272);

// Rows of a job: row i reads packed row in[i] and writes output row out[i].
struct RowList {
  const std::int32_t* in;
  const std::int32_t* out;
  const float* weights;  // kAddWeighted only
  std::int64_t n;
};

enum class Epilogue {
  kStore,        // y = W x
  kAdd,          // y += W x
  kAddWeighted,  // y = fma(weight of the row, W x, y)
  kSiluMul,      // y = silu(W x) * (W2 x)
};

struct LinearJob {
  const std::byte* blocks;         // Records of the first block
  const std::byte* second_blocks;  // kSiluMul: those of W2, of the same shape
  const std::byte* next_blocks;    // Those of the job that this thread does next, or null
  std::int64_t n_blocks;
  std::int32_t groups, bits;
  std::int32_t n_columns;  // Rows of W in these blocks: the last block may be part padding
  bool exact;              // x holds F32Group, else Int8Group
  const void* x;           // [packed rows, groups]
  RowList rows;
  float* y;  // Column of the first block in output row 0
  std::int64_t y_stride;
  Epilogue epilogue;
};

struct LinearKernels {
  void (*pack_int8)(const float* x, std::int64_t groups, Int8Group* packed);
  void (*pack_f32)(const float* x, std::int64_t groups, F32Group* packed);
  void (*multiply)(const LinearJob& job);
  // y [64 groups] = fma(scale, code, bias) of one row; `blocks` are the records of the row's block,
  // lane its place there.
  void (*dequantise)(const std::byte* blocks, std::int64_t groups, int bits, int lane, float* y);
};

}  // namespace lily::cpu
