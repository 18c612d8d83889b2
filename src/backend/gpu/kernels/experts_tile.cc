// The experts of many rows: 16 x 128 or 32 x 64 a group. _plain: without matrix units. Grid and
// traffic: experts_tile.h.
#include "backend/gpu/kernels/experts_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/experts_tile.h"

typedef ExpertsTileShared<LILY_TILE_AREA(16, 128), 32> ExpertsTileNormalShared;

KERNEL(experts_tile_up, ExpertsUpParams, ExpertsTileNormalShared, 128) {
  experts_tile_up_any<MatrixUnits, 64, 16, 128, 64>(a, sm, id);
}
KERNEL(experts_tile_down, ExpertsDownParams, ExpertsTileNormalShared, 128) {
  experts_tile_down_any<MatrixUnits, 64, 16, 128, 64>(a, sm, id);
}
KERNEL(experts_tile_up_plain, ExpertsUpParams, ExpertsTileNormalShared, 128) {
  experts_tile_up_any<PlainLanes, 64, 16, 128, 64>(a, sm, id);
}
KERNEL(experts_tile_down_plain, ExpertsDownParams, ExpertsTileNormalShared, 128) {
  experts_tile_down_any<PlainLanes, 64, 16, 128, 64>(a, sm, id);
}
