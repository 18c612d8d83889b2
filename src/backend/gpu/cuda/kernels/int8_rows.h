// Products of four weight rows with a row of activations in whole numbers, by one warp. Included
// after dialect.h and stage.h.
//
// Activations: one fp32 scale per 64 columns and 16 bits each, in two planes of int8: with 8 bits,
// as on the CPU, decode of the pocket checkpoint gave 36 of 40 recorded answers (mean KL 2.6e-5).
// A run is what 16 bytes of codes meet: 32 columns of 4-bit codes, or 16 of bytes.
// Sums within a run are whole numbers; runs are added in fp32, per lane in order of columns, lanes
// as a butterfly: a row's sum depends on the two rows alone.
#pragma once

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/experts_params.h"

// Bytes of a run: two planes, scale, sum, 8 of padding between banks. cuda/lowering.cc has it too.
template <uint kBits>
FN uint run_bytes() {
  return kBits == 4 ? 80 : 48;
}
KERNEL_CONST uint kQuadRows = 4;
KERNEL_CONST uint kFewThreads = 768, kFewWarps = 24;  // cuda/lowering.cc has them too.
KERNEL_CONST uint kRowWarps = 8;  // That bring a row of activations to shared memory.

template <uint kBits>
FN uint run_columns() {
  return 128 / kBits;
}

FN uint pack_bytes(int a, int b, int c, int d) {
  return __byte_perm(__byte_perm((uint)a, (uint)b, 0x0040), __byte_perm((uint)c, (uint)d, 0x0040),
                     0x5410);
}

// v: columns i .. i + 7; the 8 lanes of a group of 64 columns come together.
template <uint kBits>
FN void store_int8(uchar* xs, uint i, const float* v) {
  const float kLevels = 32512.0f;
  float most = 0.0f;
  UNROLL for (uint e = 0; e < 8; e++) most = fmaxf(most, fabsf(v[e]));
  UNROLL for (uint m = 4; m > 0; m >>= 1) most = fmaxf(most, lanes_xor(most, m));
  float sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
  sum += lanes_xor(sum, 1);
  if (kBits == 4) sum += lanes_xor(sum, 2);
  const float inverse = most > 0.0f ? kLevels / most : 0.0f;
  int low[8], high[8];
  UNROLL for (uint e = 0; e < 8; e++) {
    low[e] = __float2int_rn(v[e] * inverse);
    high[e] = (low[e] + 128) >> 8;
  }
  const uint columns = run_columns<kBits>();
  uchar* run = xs + i / columns * run_bytes<kBits>();
  if (kBits == 4) {  // Even and odd columns of a word of codes apart, as masks deliver them.
    *(uint4*)(run + i % 32 * 2) = make_uint4(pack_bytes(high[0], high[2], high[4], high[6]),
                                             pack_bytes(high[1], high[3], high[5], high[7]),
                                             pack_bytes(low[0], low[2], low[4], low[6]),
                                             pack_bytes(low[1], low[3], low[5], low[7]));
  } else {
    *(uint2*)(run + i % 16) = make_uint2(pack_bytes(high[0], high[1], high[2], high[3]),
                                         pack_bytes(high[4], high[5], high[6], high[7]));
    *(uint2*)(run + 16 + i % 16) = make_uint2(pack_bytes(low[0], low[1], low[2], low[3]),
                                              pack_bytes(low[4], low[5], low[6], low[7]));
  }
  if (i % columns == 0)
    *(float2*)(run + run_bytes<kBits>() - 16) = make_float2(most / kLevels, sum);
}

FN int dot_unsigned(uint codes, uint x, int sum) {
  asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(codes), "r"(x));
  return sum;
}
// Sums of a run with one 16 bytes of codes, in the two planes.
struct RunSums {
  int high, low;
};
FN float run_value(const RunSums& s) {
  return (float)(s.high * 256 + s.low);
}
FN uint word_of(const uint4& v, uint i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// dots [kRows] = codes [kRows] . the run.
template <uint kBits, uint kRows>
FN void run_dots(const uint4* codes, const uchar* run, float* dots) {
  const uint4* x = (const uint4*)run;
  RunSums sums[kRows];
  UNROLL for (uint r = 0; r < kRows; r++) sums[r] = {0, 0};
  UNROLL for (uint i = 0; i < 4; i++) {
    const uint4 planes = kBits == 4 ? x[i] : make_uint4(word_of(x[0], i), 0, word_of(x[1], i), 0);
    UNROLL for (uint r = 0; r < kRows; r++) {
      const uint w = word_of(codes[r], i), even = kBits == 4 ? w & 0x0f0f0f0fu : w;
      sums[r].high = dot_unsigned(even, planes.x, sums[r].high);
      sums[r].low = dot_unsigned(even, planes.z, sums[r].low);
      if (kBits == 4) {
        const uint odd = (w >> 4) & 0x0f0f0f0fu;
        sums[r].high = dot_unsigned(odd, planes.y, sums[r].high);
        sums[r].low = dot_unsigned(odd, planes.w, sums[r].low);
      }
    }
  }
  UNROLL for (uint r = 0; r < kRows; r++) dots[r] = run_value(sums[r]);
}
template <uint kBits>
FN float2 run_scale_sum(const uchar* run) {
  return *(const float2*)(run + run_bytes<kBits>() - 16);
}

// Four sums over all lanes; lanes 8 r .. 8 r + 7 get that of row r.
FN float sum_quad(const float* sums, uint lane) {
  const bool high = (lane & 16u) != 0;
  float a = high ? sums[2] : sums[0], b = high ? sums[3] : sums[1];
  a += lanes_xor(high ? sums[0] : sums[2], 16);
  b += lanes_xor(high ? sums[1] : sums[3], 16);
  const bool odd = (lane & 8u) != 0;
  float sum = (odd ? b : a) + lanes_xor(odd ? a : b, 8);
  UNROLL for (uint m = 4; m > 0; m >>= 1) sum += lanes_xor(sum, m);
  return sum;
}

// Four weight rows in a warp's part of shared memory: codes, scales, biases.
struct QuadShape {
  uint row_bytes, side_bytes, runs;  // Of a row: codes; scales, biases; runs.
};
template <uint kBits>
FN QuadShape quad_shape(uint cols) {
  return {cols * kBits / 8, cols / 32, cols * kBits / 128};
}
FN uint quad_bytes(const QuadShape& q) {
  return kQuadRows * (q.row_bytes + 2 * q.side_bytes);
}

// n rows from `row` on of a matrix to places at .. at + n - 1 of the quad.
template <uint kSteps>
FN void copy_rows(uchar* quad, const QuadShape& q, const ExpertMatrix& m, ulong row, uint at,
                  uint n, uint lane) {
  const uchar* codes = (const uchar*)m.codes + row * q.row_bytes;
  uchar* to = quad + at * q.row_bytes;
  UNROLL for (uint j = 0; j < kQuadRows * kSteps; j++) {
    const uint i = (j * 32 + lane) * 16;
    if (i < n * q.row_bytes) copy16(to + i, codes + i);
  }
  const uchar* scales = (const uchar*)m.scales + row * q.side_bytes;
  const uchar* biases = (const uchar*)m.biases + row * q.side_bytes;
  uchar* scales_to = quad + kQuadRows * q.row_bytes + at * q.side_bytes;
  uchar* biases_to = scales_to + kQuadRows * q.side_bytes;
  for (uint i = lane * 8; i < n * q.side_bytes; i += 256) {
    copy8(scales_to + i, scales + i);
    copy8(biases_to + i, biases + i);
  }
}

// The lane's sums [4] of the quad with xs.
template <uint kBits, uint kSteps>
FN void quad_sums(const uchar* quad, const QuadShape& q, const uchar* xs, uint lane, float* sums) {
  const ushort* scales = (const ushort*)(quad + kQuadRows * q.row_bytes);
  const ushort* biases = scales + kQuadRows * q.side_bytes / 2;
  UNROLL for (uint r = 0; r < kQuadRows; r++) sums[r] = 0.0f;
  UNROLL for (uint s = 0; s < kSteps; s++) {
    const uint run = s * 32 + lane;
    if (kSteps > 1 || run < q.runs) {
      const uchar* x = xs + run * run_bytes<kBits>();
      uint4 codes[kQuadRows];
      float dots[kQuadRows];
      UNROLL for (uint r = 0; r < kQuadRows; r++) codes[r] =
          *(const uint4*)(quad + r * q.row_bytes + run * 16);
      run_dots<kBits, kQuadRows>(codes, x, dots);
      const float2 scale_sum = run_scale_sum<kBits>(x);
      UNROLL for (uint r = 0; r < kQuadRows; r++) {
        const uint group = r * (q.side_bytes / 2) + run * 2 / kBits;
        sums[r] = m_fma(bf16_to_f(scales[group]) * scale_sum.x, dots[r],
                        m_fma(bf16_to_f(biases[group]), scale_sum.y, sums[r]));
      }
    }
  }
}

// A row of activations, a multiple of 256 of them, 8 a thread and turn; times the thread's 8 of a
// norm where there is one, of which there are at most 2,048: then also squares [8], a sum a warp.
// Ends without a barrier.
template <uint kBits, bool kNorm>
FN void store_row(uchar* xs, const float* x, const float* norm, uint cols, float* squares) {
  const uint tid = threadIdx.x;
  float square = 0.0f;
  for (uint first = 0; first < cols; first += kFewThreads * 8) {
    const uint i = first + tid * 8;
    float v[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (i < cols) {
      const float4 a = load_fresh4(x + i), b = load_fresh4(x + i + 4);
      v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z,
      v[7] = b.w;
    }
    if (kNorm) {
      UNROLL for (uint e = 0; e < 8; e++) {
        square = m_fma(v[e], v[e], square);
        v[e] *= norm[e];
      }
    }
    if (first + (tid & ~31u) * 8 < cols) {  // The same for a warp.
      store_int8<kBits>(xs, i, v);
    }
  }
  if (kNorm && tid < kRowWarps * 32) {
    square = lanes_sum(square);
    if (tid % 32 == 0) squares[tid / 32] = square;
  }
}
// The thread's 8 weights of a norm over at most 2,048 columns.
FN void load_norm(const float* norm, uint cols, float* weights) {
  const uint i = threadIdx.x * 8;
  UNROLL for (uint e = 0; e < 8; e++) weights[e] = i < cols ? norm[i + e] : 0.0f;
}
// 1 / root mean square, of store_row's squares.
FN float norm_factor(const float* squares, uint cols, float eps, uint lane) {
  float sum = squares[lane % 8];
  UNROLL for (uint m = 4; m > 0; m >>= 1) sum += lanes_xor(sum, m);
  return m_rsqrt(sum / (float)cols + eps);
}
