// gdn_norm: the second half of gdn_scan_many: y = rmsnorm(y; norm, over the head) * act(z).
// Grid: y rows, x ceil(Hv / 4) groups of 128 threads: a simdgroup per head.
// Traffic: y in and out, z in.
#include "backend/gpu/kernels/gdn_scan_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/gdn_gate.h"
#include "backend/gpu/kernels/pass.h"

KERNEL(gdn_norm, GdnScanParams, NoShared, 128) {
  const uint head = id.group.x * 4 + id.simd;
  if (id.group.y < pass_rows(a.control) && head < a.n_value_heads) {
    const ulong at = ((ulong)id.group.y * a.n_value_heads + head) * 128;
    float o[4];
    load_floats(a.y + at + id.lane * 4, o);
    gdn_gate(o, a.z + at, a.norm, a.y + at, a.z_sigmoid, a.eps, id.lane);
  }
}
