// Arguments of the kernels that multiply one tile, for every body of the tile layer.
#pragma once

#include "backend/gpu/dialect/words.h"

// c [16, 32] = a [16, cols] b^T, b [32, cols], by way of threadgroup memory with rows of ld and
// out_ld.
struct TileProductParams {
  DEV const ushort* a;
  DEV const ushort* b;
  DEV float* c;
  uint cols;  // A multiple of 16, at most 64.
  uint ld, out_ld;
  uint unused;
};
LILY_PARAMS(TileProductParams, 40);

#define TILE_KERNELS(X) X(tile_product_units) X(tile_product_plain)
