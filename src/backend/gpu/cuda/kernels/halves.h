// fp16 pairs, and the matrix units' product of them. Included after dialect.h.
#pragma once

#include "backend/gpu/cuda/kernels/stage.h"

FN uint pair_half(float lo, float hi) {
  uint pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
}
FN float half_lo(uint pair) {
  float f;
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(f) : "r"(pair));
  return f;
}
FN float half_hi(uint pair) {
  float f;
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(f) : "r"(pair));
  return f;
}

// c [16, 8] += a [16, 16] b [16, 8]; lane = 4 g + t. c: row g at columns 2t, 2t + 1, row g + 8 at
// the same. a: rows g, g + 8 at columns 2t, 2t + 1, then both at 8 + 2t, 9 + 2t. b: column g at
// rows 2t, 2t + 1, then at 8 + 2t, 9 + 2t.
FN void mma_half(float* c, const uint* a, uint b0, uint b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Four matrices of 8 rows of 8 halves in shared memory; lane 8 m + i names row i of matrix m. A
// lane gets of each the pair at row g, columns 2t, 2t + 1; across: rows 2t, 2t + 1 of column g.
FN void load_matrices(uint* to, const ushort* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
FN void load_matrices_across(uint* to, const ushort* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
// Two neighbouring c as an a, times a factor for rows g and g + 8 each.
FN void half_operand(const float (*c)[4], const float* factors, uint* a) {
  UNROLL for (uint i = 0; i < 4; i++) {
    const float* pair = &c[i / 2][i % 2 * 2];
    a[i] = pair_half(pair[0] * factors[i % 2], pair[1] * factors[i % 2]);
  }
}
// As two planes that add up to it.
FN void half_planes(const float (*c)[4], float factor, uint (*a)[4]) {
  UNROLL for (uint i = 0; i < 4; i++) {
    const float lo = c[i / 2][i % 2 * 2] * factor, hi = c[i / 2][i % 2 * 2 + 1] * factor;
    a[0][i] = pair_half(lo, hi);
    a[1][i] = pair_half(lo - half_lo(a[0][i]), hi - half_hi(a[0][i]));
  }
}
