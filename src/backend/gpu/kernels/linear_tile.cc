// Products of many rows, 32 x 64 a group. _norm and _add as in linear_few.cc; _plain: without
// matrix units. Grid and traffic: linear_tile.h.
#include "backend/gpu/kernels/linear_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/linear_tile.h"

typedef LinearTileShared<LILY_TILE_AREA(32, 64), 32> LinearTileNormalShared;

KERNEL(linear_tile_norm, LinearParams, LinearTileNormalShared, 128) {
  linear_tile<MatrixUnits, 32, 64, true>(a, sm, id);
}
KERNEL(linear_tile_add, LinearParams, LinearTileNormalShared, 128) {
  linear_tile<MatrixUnits, 32, 64, false>(a, sm, id);
}
KERNEL(linear_tile_norm_plain, LinearParams, LinearTileNormalShared, 128) {
  linear_tile<PlainLanes, 32, 64, true>(a, sm, id);
}
KERNEL(linear_tile_add_plain, LinearParams, LinearTileNormalShared, 128) {
  linear_tile<PlainLanes, 32, 64, false>(a, sm, id);
}
