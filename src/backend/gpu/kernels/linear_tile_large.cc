// linear_tile.cc at twice the height and width: 64 x 128 a group.
#include "backend/gpu/kernels/linear_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/linear_tile.h"

typedef LinearTileShared<LILY_TILE_AREA(64, 128), 64> LinearTileLargeShared;

KERNEL(linear_tile_norm_large, LinearParams, LinearTileLargeShared, 128) {
  linear_tile<MatrixUnits, 64, 128, true>(a, sm, id);
}
KERNEL(linear_tile_add_large, LinearParams, LinearTileLargeShared, 128) {
  linear_tile<MatrixUnits, 64, 128, false>(a, sm, id);
}
KERNEL(linear_tile_norm_large_plain, LinearParams, LinearTileLargeShared, 128) {
  linear_tile<PlainLanes, 64, 128, true>(a, sm, id);
}
KERNEL(linear_tile_add_large_plain, LinearParams, LinearTileLargeShared, 128) {
  linear_tile<PlainLanes, 64, 128, false>(a, sm, id);
}
