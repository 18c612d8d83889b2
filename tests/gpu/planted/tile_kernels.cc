// One product on the tile layer, by one simdgroup.
#include "tests/gpu/planted/tile_kernels.h"

#include "backend/gpu/dialect/dialect.h"

struct TileProductShared {
  uint operands[48 * 80 / 2];
  float out[16 * 80];
};

template <class Units>
FN void tile_product_of(CON TileProductParams& a, TG TileProductShared& sm, const THR Ids& id) {
  TG ushort* left = (TG ushort*)sm.operands;
  TG ushort* right = left + 16 * a.ld;
  for (uint i = id.lane; i < 48 * a.cols; i += 32) {
    const uint row = i / a.cols, col = i % a.cols;
    left[row * a.ld + col] = row < 16 ? a.a[i] : a.b[i - 16 * a.cols];
  }
  group_barrier();
  typename Units::C sums;
  tile_zero(sums);
  for (uint k = 0; k < a.cols; k += 16) {
    typename Units::A x;
    typename Units::B w;
    tile_load_a(x, left + k, a.ld);
    tile_load_bt(w, right + k, a.ld);
    tile_mma(sums, x, w);
  }
  tile_store(sums, sm.out, a.out_ld);
  group_barrier();
  for (uint i = id.lane; i < 16 * 32; i += 32) a.c[i] = sm.out[i / 32 * a.out_ld + i % 32];
}

KERNEL(tile_product_units, TileProductParams, TileProductShared, 32) {
  tile_product_of<MatrixUnits>(a, sm, id);
}
KERNEL(tile_product_plain, TileProductParams, TileProductShared, 32) {
  tile_product_of<PlainLanes>(a, sm, id);
}
