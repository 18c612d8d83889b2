// Products of many rows with up to four matrices in one grid, on the tile layer: the body of the
// kernels in linear_tile.cc and linear_tile_large.cc. Included after dialect.h.
// Grid: x sum over the parts of ceil(rows / kCols), y ceil(T / kRows); groups of 128 threads.
// Traffic: the matrices once per kRows rows of x, x once per kCols weight rows.
#pragma once

#include "backend/gpu/kernels/linear_rows.h"
#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/tile_block.h"

template <uint kArea, uint kRows>
struct LinearTileShared {
  uint4 area[kArea];
  uint rows[kRows];      // Row of x behind each of the block's.
  float inverse[kRows];  // 1 / root mean square of each, with a norm.
};

template <class Units, uint kRows, uint kCols, bool kNorm, class Shared>
FN void linear_tile(CON LinearParams& a, TG Shared& sm, const THR Ids& id) {
  const uint n = linear_n_rows(a), t0 = id.group.y * kRows;
  if (t0 < n) {
    uint block = id.group.x;
    CON LinearPart& part = a.parts[linear_part(a, kCols, block)];
    const uint row0 = block * kCols;
    if (id.tid < kRows) sm.rows[id.tid] = linear_row(a, u_min(t0 + id.tid, n - 1));
    group_barrier();
    const TileHalf low = {part.codes, part.scales, part.biases, row0, part.rows - 1, part.bits};
    const TileHalf high = {part.codes,       part.scales,   part.biases,
                           row0 + kCols / 2, part.rows - 1, part.bits};
    const TileInput in = {a.x, a.norm, sm.rows, a.cols};
    typename Units::C sums[kRows * kCols / 2048];
    float squares[kRows / 8];
    tile_product<Units, kRows, kCols, kNorm>(sm.area, low, high, in, sums, squares, id);
    if (kNorm) tile_inverse<kRows>(sm.inverse, squares, a.cols, a.eps, id.tid);
    for (uint first = 0; first < kRows; first += kTileOutRows) {
      TG const float* out = tile_out<Units, kRows, kCols>(sm.area, sums, first, id);
      for (uint i = id.tid; i < kTileOutRows * kCols; i += kTileThreads) {
        const uint t = first + i / kCols, r = i % kCols;
        if (t0 + t < n && row0 + r < part.rows) {
          DEV float* y = part.y + (ulong)(t0 + t) * part.stride + row0 + r;
          const float sum = out[i / kCols * (kCols + 4) + r];
          *y = kNorm ? sum * sm.inverse[t] : *y + sum;
        }
      }
    }
  }
}
