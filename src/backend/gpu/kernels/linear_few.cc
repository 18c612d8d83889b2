// Products of few rows with up to four matrices in one grid: decode, drafts, and wherever sums have
// to be fp32. _norm: x is first divided by its root mean square and multiplied by norm; the
// division is made at the end, so that nobody waits for the sum of squares. _add: y += .
// Grid: x sum over the parts of ceil(rows / 8), y ceil(T / kX); groups of 64 threads: two
// simdgroups of four weight rows each, all kX rows of x.
// Traffic: the matrices once per kX rows; x once per four weight rows, from cache.
#include "backend/gpu/kernels/linear_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/linear_few.h"

template <uint kX, bool kNorm>
FN void linear_few(CON LinearParams& a, const THR Ids& id) {
  const uint all = linear_n_rows(a), t0 = id.group.y * kX;
  if (t0 < all) {
    uint block = id.group.x;
    CON LinearPart& part = a.parts[linear_part(a, 2 * kFewWeightRows, block)];
    const uint row0 = (block * 2 + id.simd) * kFewWeightRows;
    linear_few_four<kX, kNorm>(a, part, row0, t0, all, id.lane);
  }
}

KERNEL(linear_few_norm_1, LinearParams, NoShared, 64) {
  linear_few<1, true>(a, id);
}
KERNEL(linear_few_norm_2, LinearParams, NoShared, 64) {
  linear_few<2, true>(a, id);
}
KERNEL(linear_few_norm_4, LinearParams, NoShared, 64) {
  linear_few<4, true>(a, id);
}
KERNEL(linear_few_norm_8, LinearParams, NoShared, 64) {
  linear_few<8, true>(a, id);
}
KERNEL(linear_few_add_1, LinearParams, NoShared, 64) {
  linear_few<1, false>(a, id);
}
KERNEL(linear_few_add_2, LinearParams, NoShared, 64) {
  linear_few<2, false>(a, id);
}
KERNEL(linear_few_add_4, LinearParams, NoShared, 64) {
  linear_few<4, false>(a, id);
}
KERNEL(linear_few_add_8, LinearParams, NoShared, 64) {
  linear_few<8, false>(a, id);
}
