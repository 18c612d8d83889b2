// Dots of codes with activations in plain C++: the definition of what linear_avx2.h and its
// siblings compute.
#pragma once

#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/simd.h"
#include "spec/layout.h"

namespace lily::cpu::LILY_ISA {

inline constexpr int kInt8TileBlocks = 1, kInt8TileRows = 4, kExactTileRows = 4;

// The code of a row of a block in one column of the group (spec/layout.h).
template <int Bits>
LILY_INLINE int code_at(const std::byte* codes, int row, int column) {
  const int byte = 64 * (column / 8) + 4 * row + column % 4, shift = column % 8 < 4 ? 0 : 4;
  const auto nibble = [&](const std::byte* plane) {
    return (std::to_integer<int>(plane[byte]) >> shift) & 15;
  };
  if constexpr (Bits == 4) return nibble(codes);
  return nibble(codes) + 16 * nibble(codes + kPlaneBytes);
}

// dots[0][r] = float(sum over the group of (code - k) * x[r])
template <int B, int R, int Bits>
LILY_INLINE void group_dots(const std::byte* const (&codes)[B], const Int8Group* const (&x)[R],
                            F16 (&dots)[B][R]) {
  static_assert(B == kInt8TileBlocks);
  constexpr int kCentre = Bits == 4 ? 8 : 136;
  std::int32_t sums[R][kBlockRows] = {};
  for (int row = 0; row < kBlockRows; ++row) {
    for (int c = 0; c < kQuantGroup; ++c) {
      const int code = code_at<Bits>(codes[0], row, c) - kCentre;
      for (int r = 0; r < R; ++r) sums[r][row] += code * x[r]->codes[c];
    }
  }
  float lanes[kBlockRows];
  for (int r = 0; r < R; ++r) {
    for (int row = 0; row < kBlockRows; ++row) lanes[row] = static_cast<float>(sums[r][row]);
    dots[0][r] = load(lanes);
  }
}

// Four columns of a block, from 8 v on, or from 8 v + 4 where High: codes[column][row].
struct CodeQuad {
  float codes[4][kBlockRows];
};
template <int Bits, bool High>
LILY_INLINE CodeQuad load_codes(const std::byte* codes, int v) {
  CodeQuad out;
  for (int c = 0; c < 4; ++c) {
    for (int row = 0; row < kBlockRows; ++row) {
      out.codes[c][row] = static_cast<float>(code_at<Bits>(codes, row, 8 * v + 4 * High + c));
    }
  }
  return out;
}
LILY_INLINE F16 column(const CodeQuad& q, int i) {
  return load(q.codes[i]);
}

// Sums of codes 4i, 4i + 1 and of codes 4i + 2, 4i + 3.
LILY_INLINE void code_sums(const std::int8_t* codes, std::int32_t (&sums)[2]) {
  sums[0] = sums[1] = 0;
  for (int i = 0; i < kQuantGroup; ++i) sums[i / 2 % 2] += codes[i];
}

}  // namespace lily::cpu::LILY_ISA
