// Products of many rows with up to four matrices in one grid, on the tile layer. _norm and _add as
// in linear_few.cc.
// Grid: x sum over the parts of ceil(rows / 64), y ceil(T / 32); groups of 128 threads.
// Traffic: the matrices once per 32 rows of x, x once per 64 weight rows.
#include "backend/gpu/kernels/linear_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/linear_rows.h"
#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/tile_block.h"

template <bool kNorm>
FN void linear_tile(CON LinearParams& a, TG TileBlock& sm, const THR Ids& id) {
  const uint n = linear_n_rows(a), t0 = id.group.y * kTileX;
  if (t0 < n) {
    uint block = id.group.x;
    CON LinearPart& part = a.parts[linear_part(a, kTileW, block)];
    const uint row0 = block * kTileW;
    if (id.tid < kTileX) sm.rows[id.tid] = linear_row(a, u_min(t0 + id.tid, n - 1));
    group_barrier();
    const TileHalf low = {part.codes, part.scales, part.biases, row0, part.rows - 1, part.bits};
    const TileHalf high = {part.codes, part.scales,   part.biases,
                           row0 + 32u, part.rows - 1, part.bits};
    tile_product<kNorm>(sm, low, high, a.cols, a.x, a.norm, a.eps, id);
    for (uint i = id.tid; i < kTileX * kTileW; i += kTileThreads) {
      const uint t = i / kTileW, r = i % kTileW;
      if (t0 + t < n && row0 + r < part.rows) {
        DEV float* y = part.y + (ulong)(t0 + t) * part.rows + row0 + r;
        const float sum = sm.out[t * kTileOutLd + r];
        *y = kNorm ? sum * sm.inverse[t] : *y + sum;
      }
    }
  }
}

KERNEL(linear_tile_norm, LinearParams, TileBlock, 128) {
  linear_tile<true>(a, sm, id);
}
KERNEL(linear_tile_add, LinearParams, TileBlock, 128) {
  linear_tile<false>(a, sm, id);
}
