// A tile: one block of 16 weight rows times a few packed rows, all groups. Lanes are weight rows,
// so nothing is summed across lanes. The order of the sums is the one of linear_kernels.h.
#pragma once

#include "backend/cpu/kernels/linear_dots.h"
#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/simd.h"
#include "spec/layout.h"

namespace lily::cpu::LILY_ISA {

// Asks the second cache level for the record some distance on while this one is worked at: the
// processor's own prefetch does not keep up. Measured on one thread of an EPYC Milan, decode at 1 /
// 2 / 4 rows: 14.1 / 13.3 / 11.6 GB/s without, 16.8 / 17.3 / 14.5 with; 1, 2 or 9 KB ahead are no
// better.
inline constexpr std::size_t kPrefetchBytes = 8 * record_bytes(4);

template <int Bits>
LILY_INLINE void prefetch_ahead(const std::byte* record) {
  for (std::size_t i = 0; i < record_bytes(Bits); i += 64)
    __builtin_prefetch(record + kPrefetchBytes + i, 0, 2);
}

// out[16 r + lane] for rows[0 .. R - 1], each with `groups` groups. prefetch: the block comes from
// memory.
template <int R, int Bits>
inline void int8_tile(const std::byte* block, std::int64_t groups, const void* const* rows,
                      float* out, bool prefetch) {
  const Int8Group* x[R];
  F16 acc[R];
  for (int r = 0; r < R; ++r) {
    x[r] = static_cast<const Int8Group*>(rows[r]);
    acc[r] = zero();
  }
  for (std::int64_t g = 0; g < groups; ++g, block += record_bytes(Bits)) {
    if (prefetch) prefetch_ahead<Bits>(block);
    F16 dots[R];
    group_dots<R, Bits>(block + 4 * kBlockRows, x, dots);
    const auto* sides = reinterpret_cast<const std::uint16_t*>(block);
    const F16 scale = load_bf16(sides);
    const F16 bias =
        fma(broadcast(Bits == 4 ? 8.0f : 136.0f), scale, load_bf16(sides + kBlockRows));
    for (int r = 0; r < R; ++r) {
      acc[r] = fma(mul(scale, broadcast(x[r]->scale)), dots[r], acc[r]);
      acc[r] = fma(bias, broadcast(x[r]->scaled_sum), acc[r]);
      ++x[r];
    }
  }
  for (int r = 0; r < R; ++r) store(out + kBlockRows * r, acc[r]);
}

template <int R>
LILY_INLINE void add_columns(const CodeQuad& quad, const F32Group* const (&x)[R], int first,
                             F16 (&sums)[R]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const F16 codes = column(quad, i);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums[r] = fma(codes, broadcast(x[r]->x[first + i]), sums[r]);
  }
}

// a_low + a_high of R rows. Few rows run both sums side by side to hide the latency of fma, more
// rows one after the other to stay in registers.
template <int R, int Bits>
LILY_INLINE void exact_dots(const std::byte* codes, const F32Group* const (&x)[R], F16 (&sums)[R]) {
  F16 high[R];
  for (int r = 0; r < R; ++r) sums[r] = high[r] = zero();
  if constexpr (R <= 2) {
    for (int v = 0; v < 8; ++v) {
      add_columns<R>(load_codes<Bits, false>(codes, v), x, 8 * v, sums);
      add_columns<R>(load_codes<Bits, true>(codes, v), x, 8 * v + 4, high);
    }
  } else {
    for (int v = 0; v < 8; ++v) add_columns<R>(load_codes<Bits, false>(codes, v), x, 8 * v, sums);
    for (int v = 0; v < 8; ++v)
      add_columns<R>(load_codes<Bits, true>(codes, v), x, 8 * v + 4, high);
  }
  for (int r = 0; r < R; ++r) sums[r] = add(sums[r], high[r]);
}

// GOP/s of one thread of an EPYC Milan, whose fma alone is 101, at 1 / 2 / 3 / 4 rows: 41 / 62 / 69
// / 77 for 4-bit codes, 34 / 54 / 64 / 70 for 8-bit ones. All four rows' sums side by side: 51.
template <int R, int Bits>
inline void exact_tile(const std::byte* block, std::int64_t groups, const void* const* rows,
                       float* out, bool prefetch) {
  const F32Group* x[R];
  F16 acc[R];
  for (int r = 0; r < R; ++r) {
    x[r] = static_cast<const F32Group*>(rows[r]);
    acc[r] = zero();
  }
  for (std::int64_t g = 0; g < groups; ++g, block += record_bytes(Bits)) {
    if (prefetch) prefetch_ahead<Bits>(block);
    F16 sums[R];
    exact_dots<R, Bits>(block + 4 * kBlockRows, x, sums);
    const auto* sides = reinterpret_cast<const std::uint16_t*>(block);
    const F16 scale = load_bf16(sides), bias = load_bf16(sides + kBlockRows);
    for (int r = 0; r < R; ++r) {
      acc[r] = fma(scale, sums[r], acc[r]);
      acc[r] = fma(bias, broadcast(x[r]->sum), acc[r]);
      ++x[r];
    }
  }
  for (int r = 0; r < R; ++r) store(out + kBlockRows * r, acc[r]);
}

}  // namespace lily::cpu::LILY_ISA
