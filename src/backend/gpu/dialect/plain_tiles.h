// The tile layer without matrix units: the same functions on PlainTileA, PlainTileB and PlainTileC,
// in plain fused multiply-adds. Only for dialect.h. A lane has a column of the product. Operands
// are read when they are multiplied, two columns of k at a time.
#pragma once

struct PlainTileA {
  TG const ushort* p;
  uint ld;
};
struct PlainTileB {
  TG const ushort* column;  // of this lane
};
struct PlainTileC {
  float r[16];  // row i of the lane's column
};

// What kernels are told to multiply tiles with.
struct MatrixUnits {
  typedef TileA A;
  typedef TileB B;
  typedef TileC C;
};
struct PlainLanes {
  typedef PlainTileA A;
  typedef PlainTileB B;
  typedef PlainTileC C;
};

FN void tile_zero(THR PlainTileC& c) {
  UNROLL for (uint i = 0; i < 16; i++) c.r[i] = 0.0f;
}
FN void tile_load_a(THR PlainTileA& a, TG const ushort* p, uint ld) {
  a.p = p;
  a.ld = ld;
}
FN void tile_load_bt(THR PlainTileB& b, TG const ushort* p, uint ld) {
  b.column = p + this_lane() * ld;
}
FN void tile_mma(THR PlainTileC& c, const THR PlainTileA& a, const THR PlainTileB& b) {
  ROLLED for (uint k = 0; k < 16; k += 2) {
    const uint w = *(TG const uint*)(b.column + k);
    UNROLL for (uint i = 0; i < 16; i++) {
      const uint x = *(TG const uint*)(a.p + i * a.ld + k);
      c.r[i] = m_fma(bf16_hi(x), bf16_hi(w), m_fma(bf16_lo(x), bf16_lo(w), c.r[i]));
    }
  }
}
FN void tile_store(const THR PlainTileC& c, TG float* p, uint ld) {
  UNROLL for (uint i = 0; i < 16; i++) p[i * ld + this_lane()] = c.r[i];
}
