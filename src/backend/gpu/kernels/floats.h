// Four floats at a time, 16-byte aligned, and 8 bf16. Included by kernels after dialect.h.
#pragma once

FN void load_floats(DEV const float* from, THR float* to) {
  const float4 v = *(DEV const float4*)from;
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}
FN void store_floats(DEV float* to, const THR float* v) {
  *(DEV float4*)to = make_float4(v[0], v[1], v[2], v[3]);
}
FN void widen_bf16(uint4 pairs, THR float* to) {
  to[0] = bf16_lo(pairs.x);
  to[1] = bf16_hi(pairs.x);
  to[2] = bf16_lo(pairs.y);
  to[3] = bf16_hi(pairs.y);
  to[4] = bf16_lo(pairs.z);
  to[5] = bf16_hi(pairs.z);
  to[6] = bf16_lo(pairs.w);
  to[7] = bf16_hi(pairs.w);
}
