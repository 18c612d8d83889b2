// Products with quantised matrices: a job's rows in panels, its blocks within a panel, tiles within
// a block, then the epilogue.
#pragma once

#include <algorithm>

#include "backend/cpu/kernels.h"
#include "backend/cpu/kernels/linear_pack.h"
#include "backend/cpu/kernels/linear_tiles.h"
#include "backend/cpu/simd.h"

namespace lily::cpu::LILY_ISA {

// Packed rows that stay in the second cache level while a job's blocks pass: 64 rows of 2,048
// columns are 160 KiB.
inline constexpr int kPanelRows = 64;

struct Panel {
  const void* rows[kPanelRows];  // Packed
  int n;
};

using Tile = void (*)(const std::byte* block, std::int64_t groups, const void* const* rows,
                      float* out, bool prefetch);
// The tile for r rows is tiles[r - 1].
inline constexpr int kTileRows = 4;
struct TileSet {
  Tile tiles[kTileRows];
};

template <int Bits>
inline constexpr TileSet kInt8Tiles = {
    {int8_tile<1, Bits>, int8_tile<2, Bits>, int8_tile<3, Bits>, int8_tile<4, Bits>}};
template <int Bits>
inline constexpr TileSet kExactTiles = {
    {exact_tile<1, Bits>, exact_tile<2, Bits>, exact_tile<3, Bits>, exact_tile<4, Bits>}};

inline const TileSet& tiles_of(const LinearJob& job) {
  if (job.exact) return job.bits == 4 ? kExactTiles<4> : kExactTiles<8>;
  return job.bits == 4 ? kInt8Tiles<4> : kInt8Tiles<8>;
}

// out [panel.n, 16] = one block times the panel's rows.
inline void multiply_block(const TileSet& set, const std::byte* block, std::int64_t groups,
                           const Panel& panel, float* out) {
  for (int r = 0; r < panel.n; r += kTileRows) {
    const int n = std::min(kTileRows, panel.n - r);
    set.tiles[n - 1](block, groups, panel.rows + r, out + kBlockRows * r, r == 0);
  }
}

// One row of a block's results, `y` [n], n < 16 in a last block only.
template <typename F>
LILY_INLINE void update(float* y, int n, F f) {
  if (n >= kBlockRows)
    store(y, f(load(y)));
  else
    store_n(y, f(load_n(y, n)), n);
}

inline void finish_block(const LinearJob& job, const float* results, const float* second,
                         std::int64_t first, int n_rows, std::int64_t column) {
  const int n = static_cast<int>(std::min<std::int64_t>(job.n_columns - column, kBlockRows));
  for (int r = 0; r < n_rows; ++r) {
    float* y = job.y + job.rows.out[first + r] * job.y_stride + column;
    const F16 value = load(results + kBlockRows * r);
    switch (job.epilogue) {
      case Epilogue::kStore:
        update(y, n, [&](F16) { return value; });
        break;
      case Epilogue::kAdd:
        update(y, n, [&](F16 old) { return add(old, value); });
        break;
      case Epilogue::kAddWeighted: {
        const F16 weight = broadcast(job.rows.weights[first + r]);
        update(y, n, [&](F16 old) { return fma(weight, value, old); });
        break;
      }
      case Epilogue::kSiluMul: {
        const F16 other = load(second + kBlockRows * r);
        update(y, n, [&](F16) { return mul(silu(value), other); });
        break;
      }
    }
  }
}

// The results' places, asked for before the products are worked out: rows lie kilobytes apart, so
// that nothing else fetches them.
LILY_INLINE void prefetch_results(const LinearJob& job, std::int64_t first, int n_rows,
                                  std::int64_t column) {
  for (int r = 0; r < n_rows; ++r)
    __builtin_prefetch(job.y + job.rows.out[first + r] * job.y_stride + column, 1);
}

inline void multiply_panel(const LinearJob& job, const TileSet& set, std::int64_t first,
                           const Panel& panel) {
  alignas(64) float results[kPanelRows * kBlockRows], second[kPanelRows * kBlockRows];
  const std::size_t block_bytes = record_bytes(job.bits) * static_cast<std::size_t>(job.groups);
  for (std::int64_t b = 0; b < job.n_blocks; ++b) {
    const std::size_t offset = block_bytes * static_cast<std::size_t>(b);
    prefetch_results(job, first, panel.n, kBlockRows * b);
    multiply_block(set, job.blocks + offset, job.groups, panel, results);
    if (job.epilogue == Epilogue::kSiluMul) {
      multiply_block(set, job.second_blocks + offset, job.groups, panel, second);
    }
    finish_block(job, results, second, first, panel.n, kBlockRows * b);
  }
}

inline void multiply(const LinearJob& job) {
  const TileSet& set = tiles_of(job);
  const std::size_t group_bytes = job.exact ? sizeof(F32Group) : sizeof(Int8Group);
  const std::size_t row_bytes = group_bytes * static_cast<std::size_t>(job.groups);
  Panel panel;
  for (std::int64_t first = 0; first < job.rows.n; first += panel.n) {
    panel.n = static_cast<int>(std::min<std::int64_t>(kPanelRows, job.rows.n - first));
    for (int r = 0; r < panel.n; ++r) {
      panel.rows[r] = static_cast<const std::byte*>(job.x) +
                      row_bytes * static_cast<std::size_t>(job.rows.in[first + r]);
    }
    multiply_panel(job, set, first, panel);
  }
}

inline LinearKernels linear_kernels() {
  return {
      .pack_int8 = pack_int8, .pack_f32 = pack_f32, .multiply = multiply, .dequantise = dequantise};
}

}  // namespace lily::cpu::LILY_ISA
