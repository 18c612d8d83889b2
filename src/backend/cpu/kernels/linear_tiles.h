// A tile: one block of 16 weight rows times a few packed rows, all groups. Lanes are weight rows,
// so nothing is summed across lanes. The order of the sums is the one of linear_kernels.h.
#pragma once

#include "backend/cpu/kernels/linear_dots.h"
#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/simd.h"
#include "spec/layout.h"

namespace lily::cpu::LILY_ISA {

// Packed rows that stay in the second cache level while a job's blocks pass: 64 rows of 2,048
// columns are 160 KiB.
inline constexpr int kPanelRows = 64;

// Asks the second cache level for the record some distance on while this one is worked at: the
// processor's own prefetch does not keep up. Measured on one thread of an EPYC Milan, decode at 1 /
// 2 / 4 rows: 14.1 / 13.3 / 11.6 GB/s without, 16.8 / 17.3 / 14.5 with; 1, 2 or 9 KB ahead are no
// better.
inline constexpr std::ptrdiff_t kPrefetchRecords = 8;

template <int Bits>
LILY_INLINE void prefetch_record(const std::byte* record) {
  for (std::size_t i = 0; i < record_bytes(Bits); i += 64) __builtin_prefetch(record + i, 0, 2);
}

// Where the results of a tile's second block go, counted from those of its first.
inline constexpr std::int64_t kSecondOut = kPanelRows * kBlockRows;

// out[kSecondOut b + 16 r + lane] for blocks[0 .. B - 1] and rows[0 .. R - 1], each with `groups`
// groups. ahead: how far behind a record lies the one to ask for; 0: none.
template <int B, int R, int Bits>
inline void int8_tile(const std::byte* const* blocks, std::int64_t groups, const void* const* rows,
                      float* out, std::ptrdiff_t ahead) {
  const std::byte* codes[B];
  const Int8Group* x[R];
  F16 acc[B][R];
  for (int b = 0; b < B; ++b) codes[b] = blocks[b] + 4 * kBlockRows;
  for (int r = 0; r < R; ++r) {
    x[r] = static_cast<const Int8Group*>(rows[r]);
    for (int b = 0; b < B; ++b) acc[b][r] = zero();
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    F16 dots[B][R];
    if (ahead != 0) {
      for (int b = 0; b < B; ++b) prefetch_record<Bits>(codes[b] - 4 * kBlockRows + ahead);
    }
    group_dots<B, R, Bits>(codes, x, dots);
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b) {
      const auto* sides = reinterpret_cast<const std::uint16_t*>(codes[b] - 4 * kBlockRows);
      const F16 scale = load_bf16(sides);
      const F16 bias =
          fma(broadcast(Bits == 4 ? 8.0f : 136.0f), scale, load_bf16(sides + kBlockRows));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        acc[b][r] = fma(mul(scale, broadcast(x[r]->scale)), dots[b][r], acc[b][r]);
        acc[b][r] = fma(bias, broadcast(x[r]->scaled_sum), acc[b][r]);
      }
      codes[b] += record_bytes(Bits);
    }
    for (int r = 0; r < R; ++r) ++x[r];
  }
  for (int b = 0; b < B; ++b) {
    for (int r = 0; r < R; ++r) store(out + kSecondOut * b + kBlockRows * r, acc[b][r]);
  }
}

template <int R>
LILY_INLINE void add_columns(const CodeQuad& quad, const F32Group* const (&x)[R], int first,
                             F16 (&sums)[R]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const F16 codes = column(quad, i);
#pragma GCC unroll 8
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
inline void exact_tile(const std::byte* const* blocks, std::int64_t groups, const void* const* rows,
                       float* out, std::ptrdiff_t ahead) {
  const std::byte* block = blocks[0];
  const F32Group* x[R];
  F16 acc[R];
  for (int r = 0; r < R; ++r) {
    x[r] = static_cast<const F32Group*>(rows[r]);
    acc[r] = zero();
  }
  for (std::int64_t g = 0; g < groups; ++g, block += record_bytes(Bits)) {
    if (ahead != 0) prefetch_record<Bits>(block + ahead);
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
