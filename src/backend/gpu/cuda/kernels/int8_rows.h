// Products of four weight rows with a row of activations in whole numbers, by one warp. Included
// after dialect.h and stage.h.
// What is left to it is the vocabulary, which is bound by memory: half_tiles.h has the others.
//
// Activations: one fp32 scale per 64 columns and 16 bits each, in two planes of int8: with 8 bits,
// as on the CPU, decode of the pocket checkpoint gave 36 of 40 recorded answers (mean KL 2.6e-5).
// A run is what 16 bytes of codes meet, 32 columns.
// Sums within a run are whole numbers; runs are added in fp32, per lane in order of columns, lanes
// as a butterfly: a row's sum depends on the two rows alone.
#pragma once

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/experts_params.h"

// Bytes of a run: two planes, scale, sum, 8 of padding between banks. cuda/lowering.cc has it too.
KERNEL_CONST uint kRunBytes = 80, kRunColumns = 32;
KERNEL_CONST uint kQuadRows = 4;
KERNEL_CONST uint kFewThreads = 768, kFewWarps = 24;  // cuda/lowering.cc has them too.
KERNEL_CONST uint kRowWarps = 8;  // That bring a row of activations to shared memory.

// Byte kByte of each.
template <uint kByte>
FN uint pack_bytes(uint a, uint b, uint c, uint d) {
  const uint kPick = kByte * 0x11 + 0x40;
  return __byte_perm(__byte_perm(a, b, kPick), __byte_perm(c, d, kPick), 0x5410);
}

// 1.5 * 2^23: its sum with a whole number below 2^22 in size has that number in its low bits, and
// the other way about. Conversions proper run at a quarter of the rate of sums.
KERNEL_CONST float kWhole = 12582912.0f;
KERNEL_CONST int kWholeBits = 0x4b400000;

// v: columns i .. i + 7; the 8 lanes of a group of 64 columns come together.
FN void store_int8(uchar* xs, uint i, const float* v) {
  const float kLevels = 32512.0f;
  float most = 0.0f;
  UNROLL for (uint e = 0; e < 8; e++) most = fmaxf(most, fabsf(v[e]));
  UNROLL for (uint m = 4; m > 0; m >>= 1) most = fmaxf(most, lanes_xor(most, m));
  float sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
  sum += lanes_xor(sum, 1);
  sum += lanes_xor(sum, 2);
  const float inverse = most > 0.0f ? kLevels / most : 0.0f;
  uint low[8], high[8];  // Bits 0 .. 7, bits 8 .. 15.
  UNROLL for (uint e = 0; e < 8; e++) {
    low[e] = as_type<uint>(v[e] * inverse + kWhole);
    high[e] = low[e] + 128;
  }
  uchar* run = xs + i / kRunColumns * kRunBytes;
  // Even and odd columns of a word of codes apart, as masks deliver them.
  *(uint4*)(run + i % kRunColumns * 2) = make_uint4(
      pack_bytes<1>(high[0], high[2], high[4], high[6]),
      pack_bytes<1>(high[1], high[3], high[5], high[7]),
      pack_bytes<0>(low[0], low[2], low[4], low[6]), pack_bytes<0>(low[1], low[3], low[5], low[7]));
  if (i % kRunColumns == 0) *(float2*)(run + kRunBytes - 16) = make_float2(most / kLevels, sum);
}

FN int dot_unsigned(uint codes, uint x, int sum) {
  asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(codes), "r"(x));
  return sum;
}
// Sums of a run with one 16 bytes of codes, in the two planes, on top of kWholeBits.
struct RunSums {
  int high, low;
};
FN float run_value(const RunSums& s) {
  return m_fma(as_type<float>(s.high) - kWhole, 256.0f, as_type<float>(s.low) - kWhole);
}
FN uint word_of(const uint4& v, uint i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// dots [kRows] = codes [kRows] . the run.
template <uint kRows>
FN void run_dots(const uint4* codes, const uchar* run, float* dots) {
  const uint4* x = (const uint4*)run;
  RunSums sums[kRows];
  UNROLL for (uint r = 0; r < kRows; r++) sums[r] = {kWholeBits, kWholeBits};
  UNROLL for (uint i = 0; i < 4; i++) {
    UNROLL for (uint r = 0; r < kRows; r++) {
      const uint w = word_of(codes[r], i), even = w & 0x0f0f0f0fu, odd = (w >> 4) & 0x0f0f0f0fu;
      sums[r].high = dot_unsigned(even, x[i].x, sums[r].high);
      sums[r].low = dot_unsigned(even, x[i].z, sums[r].low);
      sums[r].high = dot_unsigned(odd, x[i].y, sums[r].high);
      sums[r].low = dot_unsigned(odd, x[i].w, sums[r].low);
    }
  }
  UNROLL for (uint r = 0; r < kRows; r++) dots[r] = run_value(sums[r]);
}
FN float2 run_scale_sum(const uchar* run) {
  return *(const float2*)(run + kRunBytes - 16);
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
FN QuadShape quad_shape(uint cols) {
  return {cols / 2, cols / 32, cols / 32};
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
template <uint kSteps>
FN void quad_sums(const uchar* quad, const QuadShape& q, const uchar* xs, uint lane, float* sums) {
  const ushort* scales = (const ushort*)(quad + kQuadRows * q.row_bytes);
  const ushort* biases = scales + kQuadRows * q.side_bytes / 2;
  UNROLL for (uint r = 0; r < kQuadRows; r++) sums[r] = 0.0f;
  UNROLL for (uint s = 0; s < kSteps; s++) {
    const uint run = s * 32 + lane;
    if (kSteps > 1 || run < q.runs) {
      const uchar* x = xs + run * kRunBytes;
      uint4 codes[kQuadRows];
      float dots[kQuadRows];
      UNROLL for (uint r = 0; r < kQuadRows; r++) codes[r] =
          *(const uint4*)(quad + r * q.row_bytes + run * 16);
      run_dots<kQuadRows>(codes, x, dots);
      const float2 scale_sum = run_scale_sum(x);
      UNROLL for (uint r = 0; r < kQuadRows; r++) {
        const uint group = r * (q.side_bytes / 2) + run / 2;
        sums[r] = m_fma(bf16_to_f(scales[group]) * scale_sum.x, dots[r],
                        m_fma(bf16_to_f(biases[group]), scale_sum.y, sums[r]));
      }
    }
  }
}

// A row of activations times the thread's 8 of a norm, a multiple of 256 and at most 2,048 of them,
// 8 a thread; squares [8], a sum a warp. Ends without a barrier.
FN void store_row(uchar* xs, const float* x, const float* norm, uint cols, float* squares) {
  const uint i = threadIdx.x * 8;
  if (threadIdx.x >= kRowWarps * 32) return;
  float v[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, square = 0.0f;
  if (i < cols) {
    const float4 a = load_fresh4(x + i), b = load_fresh4(x + i + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
  }
  UNROLL for (uint e = 0; e < 8; e++) {
    square = m_fma(v[e], v[e], square);
    v[e] *= norm[e];
  }
  if ((threadIdx.x & ~31u) * 8 < cols) store_int8(xs, i, v);  // The same for a warp.
  square = lanes_sum(square);
  if (threadIdx.x % 32 == 0) squares[threadIdx.x / 32] = square;
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
