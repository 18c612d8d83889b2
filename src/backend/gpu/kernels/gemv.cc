// y [rows] = W x for one row of x, 4- and 8-bit weights.
// Grid: ceil(rows / 8) groups of 64 threads; a simdgroup owns 4 rows, so that x is unpacked once
// for four. A lane takes 16 bytes of codes a step, lane after lane: 512-byte reads. Its partial sum
// of a step is scale * sum(code x) + bias * sum(x). Traffic: codes, scales and biases once; x once
// per 4 rows, from cache. A row's sum depends on cols alone, so other kernels may repeat these
// bits.
#include "backend/gpu/kernels/gemv_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/quant.h"

KERNEL_CONST uint kGemvRows = 4;

template <uint kBits>
FN float gemv_dot(uint4 codes, THR const float* x) {
  if (kBits == 4) {
    return quant_dot4(
        codes.w, x + 24,
        quant_dot4(codes.z, x + 16, quant_dot4(codes.y, x + 8, quant_dot4(codes.x, x, 0.0f))));
  }
  return quant_dot8(
      codes.w, x + 12,
      quant_dot8(codes.z, x + 8, quant_dot8(codes.y, x + 4, quant_dot8(codes.x, x, 0.0f))));
}

template <uint kBits>
FN void gemv(CON GemvParams& a, const THR Ids& id) {
  const uint kStep = 128 / kBits;  // weights of a lane and step: 32 or 16
  const uint row0 = (id.group.x * 2 + id.simd) * kGemvRows;
  const uint steps = a.cols / kStep, groups = a.cols / 64;
  DEV const uint4* codes = (DEV const uint4*)a.codes;
  DEV const float4* x4 = (DEV const float4*)a.x;
  float sums[kGemvRows] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (uint s = id.lane; s < steps; s += 32) {
    float x[kStep];
    float x_sum = 0.0f;
    UNROLL for (uint i = 0; i < kStep / 4; i++) {
      const float4 v = x4[s * (kStep / 4) + i];
      x[4 * i] = v.x;
      x[4 * i + 1] = v.y;
      x[4 * i + 2] = v.z;
      x[4 * i + 3] = v.w;
      x_sum += (v.x + v.y) + (v.z + v.w);
    }
    UNROLL for (uint r = 0; r < kGemvRows; r++) {
      const ulong row = u_min(row0 + r, a.rows - 1);  // a tail's rows repeat the last, unwritten
      const ulong group = row * groups + s / (64 / kStep);
      const float dot = gemv_dot<kBits>(codes[row * steps + s], x);
      sums[r] =
          m_fma(bf16_to_f(a.scales[group]), dot, m_fma(bf16_to_f(a.biases[group]), x_sum, sums[r]));
    }
  }
  UNROLL for (uint r = 0; r < kGemvRows; r++) {
    const float sum = lanes_sum(sums[r]);
    if (id.lane == 0 && row0 + r < a.rows) a.y[row0 + r] = sum;
  }
}

KERNEL(gemv_q4, GemvParams, NoShared, 64) {
  gemv<4>(a, id);
}
KERNEL(gemv_q8, GemvParams, NoShared, 64) {
  gemv<8>(a, id);
}
