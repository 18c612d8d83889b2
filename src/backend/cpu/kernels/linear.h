// Products with quantised matrices: a job's rows in panels, its blocks within a panel, tiles within
// a block, then the epilogue.
#pragma once

#include <algorithm>
#include <utility>

#include "backend/cpu/kernels.h"
#include "backend/cpu/kernels/linear_pack.h"
#include "backend/cpu/kernels/linear_tiles.h"
#include "backend/cpu/simd.h"

namespace lily::cpu::LILY_ISA {

struct Panel {
  const void* rows[kPanelRows];  // Packed
  int n;
};

using Tile = void (*)(const std::byte* const* blocks, std::int64_t groups, const void* const* rows,
                      float* out, std::ptrdiff_t ahead);
// tiles[r - 1] takes r rows, 1 <= r <= most, times one block; pairs[r - 1] times two, where there
// are such.
struct TileSet {
  const Tile* tiles;
  const Tile* pairs;
  int most;
  // For fewer rows memory is what binds, and two streams from it are slower than one.
  bool pairs_for(int n_rows) const { return pairs != nullptr && n_rows >= 4; }
};

template <int Bits, int... I>
TileSet int8_tiles(std::integer_sequence<int, I...>) {
  static constexpr Tile kTiles[] = {int8_tile<1, I + 1, Bits>...};
  static constexpr Tile kPairs[] = {int8_tile<kInt8TileBlocks, I + 1, Bits>...};
  return {kTiles, kInt8TileBlocks == 2 ? kPairs : nullptr, sizeof...(I)};
}
template <int Bits, int... I>
TileSet exact_tiles(std::integer_sequence<int, I...>) {
  static constexpr Tile kTiles[] = {exact_tile<I + 1, Bits>...};
  return {kTiles, nullptr, sizeof...(I)};
}

inline TileSet tiles_of(const LinearJob& job) {
  constexpr std::make_integer_sequence<int, kInt8TileRows> kInt8;
  constexpr std::make_integer_sequence<int, kExactTileRows> kExact;
  if (job.exact) return job.bits == 4 ? exact_tiles<4>(kExact) : exact_tiles<8>(kExact);
  return job.bits == 4 ? int8_tiles<4>(kInt8) : int8_tiles<8>(kInt8);
}

// out [panel.n, 16] = a block times the panel's rows, or two blocks side by side; in tiles of
// nearly the same height: a low tile takes as long to unpack its codes as a high one.
inline void run_tiles(const Tile* tiles, int most, const std::byte* const* blocks,
                      std::int64_t groups, const Panel& panel, std::ptrdiff_t ahead, float* out) {
  int n_tiles = (panel.n + most - 1) / most;
  for (int r = 0, n = 0; r < panel.n; r += n, --n_tiles) {
    n = (panel.n - r + n_tiles - 1) / n_tiles;
    tiles[n - 1](blocks, groups, panel.rows + r, out + kBlockRows * r, r == 0 ? ahead : 0);
  }
}

// One block or two, side by side where that is worth it.
inline void multiply_blocks(const TileSet& set, const std::byte* const (&blocks)[2], int n_blocks,
                            std::int64_t groups, const Panel& panel, std::ptrdiff_t ahead,
                            float* out) {
  if (n_blocks == 2 && set.pairs_for(panel.n))
    return run_tiles(set.pairs, set.most, blocks, groups, panel, ahead, out);
  for (int b = 0; b < n_blocks; ++b)
    run_tiles(set.tiles, set.most, blocks + b, groups, panel, ahead, out + kSecondOut * b);
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

// From the records of the `n` blocks that begin at `block` to those to ask for meanwhile: some way
// on in the same block where that is long, else the next blocks, which after the last are the next
// job's.
inline std::ptrdiff_t prefetch_distance(const LinearJob& job, const std::byte* block,
                                        std::int64_t n, bool last) {
  const auto record = static_cast<std::ptrdiff_t>(record_bytes(job.bits));
  if (job.groups > kPrefetchRecords) return kPrefetchRecords * record;
  if (!last) return n * job.groups * record;
  return job.next_blocks == nullptr ? 0 : job.next_blocks - block;
}

inline void multiply_panel(const LinearJob& job, const TileSet& set, std::int64_t first,
                           const Panel& panel) {
  alignas(64) float results[2 * kSecondOut];
  const bool gated = job.epilogue == Epilogue::kSiluMul;
  const std::int64_t most = !gated && set.pairs_for(panel.n) ? 2 : 1;
  const std::size_t block_bytes = record_bytes(job.bits) * static_cast<std::size_t>(job.groups);
  // Side by side lie a block of each matrix, or two neighbours of one.
  for (std::int64_t b = 0, n = 0; b < job.n_blocks; b += n) {
    n = std::min(most, job.n_blocks - b);
    const std::size_t offset = block_bytes * static_cast<std::size_t>(b);
    const std::byte* const block = job.blocks + offset;
    const std::byte* const pair[2] = {block,
                                      gated ? job.second_blocks + offset : block + block_bytes};
    for (std::int64_t i = 0; i < n; ++i)
      prefetch_results(job, first, panel.n, kBlockRows * (b + i));
    multiply_blocks(set, pair, gated ? 2 : static_cast<int>(n), job.groups, panel,
                    prefetch_distance(job, block, n, b + n == job.n_blocks), results);
    for (std::int64_t i = 0; i < n; ++i)
      finish_block(job, results + kSecondOut * i, results + kSecondOut, first, panel.n,
                   kBlockRows * (b + i));
  }
}

inline void multiply(const LinearJob& job) {
  const TileSet set = tiles_of(job);
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
