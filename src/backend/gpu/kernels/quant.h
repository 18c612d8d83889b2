// Affine weights in groups of 64 (spec/layout.h, kRowMajor), 16 bytes of codes at a time. Included
// by kernels after dialect.h.
#pragma once

// Sum of code * x over the codes of one 32-bit word, in order.
FN float quant_dot4(uint codes, THR const float* x, float sum) {
  UNROLL for (uint i = 0; i < 8; i++) sum = m_fma((float)((codes >> (4 * i)) & 15u), x[i], sum);
  return sum;
}
FN float quant_dot8(uint codes, THR const float* x, float sum) {
  UNROLL for (uint i = 0; i < 4; i++) sum = m_fma((float)((codes >> (8 * i)) & 255u), x[i], sum);
  return sum;
}

// Weights of 16 bytes of codes as pairs of bf16: 16 pairs of 4-bit codes, or 8 of bytes.
template <uint kBits>
FN void quant_pairs(uint4 codes, float scale, float bias, THR uint* pairs) {
  const uint words[4] = {codes.x, codes.y, codes.z, codes.w}, kPairs = 16 / kBits,
             kMask = (1u << kBits) - 1;
  UNROLL for (uint i = 0; i < 4 * kPairs; i++) {
    const uint two = words[i / kPairs] >> (i % kPairs * 2 * kBits);
    pairs[i] = bf16_pair(m_fma((float)(two & kMask), scale, bias),
                         m_fma((float)((two >> kBits) & kMask), scale, bias));
  }
}

// Weights of one 32-bit word as bf16 in threadgroup memory.
FN void quant_unpack4(uint codes, float scale, float bias, TG ushort* to) {
  UNROLL for (uint i = 0; i < 8; i++) to[i] =
      f_to_bf16(m_fma((float)((codes >> (4 * i)) & 15u), scale, bias));
}
FN void quant_unpack8(uint codes, float scale, float bias, TG ushort* to) {
  UNROLL for (uint i = 0; i < 4; i++) to[i] =
      f_to_bf16(m_fma((float)((codes >> (8 * i)) & 255u), scale, bias));
}
