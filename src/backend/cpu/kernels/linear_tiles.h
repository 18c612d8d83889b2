// A tile: one block of 16 weight rows times a few packed rows, all groups. Lanes are weight rows, so nothing is summed across
// lanes. The order of the sums is the one of linear_kernels.h.
#pragma once

#include "backend/cpu/kernels/linear_dots.h"
#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/simd.h"
#include "spec/layout.h"

namespace lily::cpu::LILY_ISA {

// out[16 r + lane] for rows[0 .. R - 1], each with `groups` groups.
template <int R, int Bits>
inline void int8_tile(const std::byte* block, std::int64_t groups, const void* const* rows, float* out) {
  const Int8Group* x[R];
  F16 acc[R];
  for (int r = 0; r < R; ++r) {
    x[r] = static_cast<const Int8Group*>(rows[r]);
    acc[r] = zero();
  }
  for (std::int64_t g = 0; g < groups; ++g, block += record_bytes(Bits)) {
    F16 dots[R];
    group_dots<R, Bits>(block + 4 * kBlockRows, x, dots);
    const auto* sides = reinterpret_cast<const std::uint16_t*>(block);
    const F16 scale = load_bf16(sides);
    const F16 bias = fma(broadcast(Bits == 4 ? 8.0f : 136.0f), scale, load_bf16(sides + kBlockRows));
    for (int r = 0; r < R; ++r) {
      acc[r] = fma(mul(scale, broadcast(x[r]->scale)), dots[r], acc[r]);
      acc[r] = fma(bias, broadcast(x[r]->scaled_sum), acc[r]);
      ++x[r];
    }
  }
  for (int r = 0; r < R; ++r) store(out + kBlockRows * r, acc[r]);
}

template <int R, int Bits>
inline void exact_tile(const std::byte* block, std::int64_t groups, const void* const* rows, float* out) {
  const F32Group* x[R];
  F16 acc[R];
  for (int r = 0; r < R; ++r) {
    x[r] = static_cast<const F32Group*>(rows[r]);
    acc[r] = zero();
  }
  for (std::int64_t g = 0; g < groups; ++g, block += record_bytes(Bits)) {
    F16 low[R], high[R];
    for (int r = 0; r < R; ++r) low[r] = high[r] = zero();
    for (int v = 0; v < 8; ++v) {
      const CodeWords codes = load_codes<Bits>(block + 4 * kBlockRows, v);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const F16 c = low_column(codes, i), d = high_column(codes, i);
        for (int r = 0; r < R; ++r) {
          low[r] = fma(c, broadcast(x[r]->x[8 * v + i]), low[r]);
          high[r] = fma(d, broadcast(x[r]->x[8 * v + 4 + i]), high[r]);
        }
      }
    }
    const auto* sides = reinterpret_cast<const std::uint16_t*>(block);
    const F16 scale = load_bf16(sides), bias = load_bf16(sides + kBlockRows);
    for (int r = 0; r < R; ++r) {
      acc[r] = fma(scale, add(low[r], high[r]), acc[r]);
      acc[r] = fma(bias, broadcast(x[r]->sum), acc[r]);
      ++x[r];
    }
  }
  for (int r = 0; r < R; ++r) store(out + kBlockRows * r, acc[r]);
}

}  // namespace lily::cpu::LILY_ISA
