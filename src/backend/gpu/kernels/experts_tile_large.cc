// experts_tile.cc at twice the height and width: 32 x 128 or 64 x 128 a group.
#include "backend/gpu/kernels/experts_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/experts_tile.h"

typedef ExpertsTileShared<LILY_TILE_AREA(64, 128), 64> ExpertsTileLargeShared;

KERNEL(experts_tile_up_large, ExpertsUpParams, ExpertsTileLargeShared, 128) {
  experts_tile_up_any<MatrixUnits, 128, 32, 128, 128>(a, sm, id);
}
KERNEL(experts_tile_down_large, ExpertsDownParams, ExpertsTileLargeShared, 128) {
  experts_tile_down_any<MatrixUnits, 128, 32, 128, 128>(a, sm, id);
}
KERNEL(experts_tile_up_large_plain, ExpertsUpParams, ExpertsTileLargeShared, 128) {
  experts_tile_up_any<PlainLanes, 128, 32, 128, 128>(a, sm, id);
}
KERNEL(experts_tile_down_large_plain, ExpertsDownParams, ExpertsTileLargeShared, 128) {
  experts_tile_down_any<PlainLanes, 128, 32, 128, 128>(a, sm, id);
}
