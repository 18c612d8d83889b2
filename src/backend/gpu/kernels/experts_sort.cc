// Which rows chose which expert, for products on tiles: a histogram, its prefix sums, the scatter
// and the map of blocks, in one launch and without atomics.
// Grid: a group of 256 threads per expert. Each counts the choices of its own expert and of those
// before it, thread by thread over consecutive choices, and from the prefix sums of its threads
// knows where its slots go: ascending, whatever the order of the groups.
// Blocks hold up to n = block_rows slots of one expert. Expert e has the blocks from less / n + e on,
// less the choices of experts before it: room enough for ceil(count / n) before the next expert's,
// and no sum over the experts is needed. Those that stay empty have 0 places.
// Traffic: the list of choices twice per expert, from cache.
#include "backend/gpu/kernels/experts_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/pass.h"

struct ExpertsSortShared {
  uint equal[8], less[8];
};

KERNEL(experts_sort, ExpertsSortParams, ExpertsSortShared, 256) {
  const uint e = id.group.x, n = pass_rows(a.control) * a.n_chosen;
  const uint per_thread = (n + id.threads - 1) / id.threads;
  const uint begin = u_min(id.tid * per_thread, n), end = u_min(begin + per_thread, n);
  uint equal = 0, less = 0;
  for (uint i = begin; i < end; i++) {
    const uint chosen = (uint)a.experts[i];
    equal += chosen == e ? 1u : 0u;
    less += chosen < e ? 1u : 0u;
  }
  uint before = lanes_prefix(equal, id.lane);
  const uint simd_equal = lanes_sum(equal), simd_less = lanes_sum(less);
  if (id.lane == 0) {
    sm.equal[id.simd] = simd_equal;
    sm.less[id.simd] = simd_less;
  }
  group_barrier();
  uint count = 0, first = 0;
  for (uint s = 0; s < id.threads / 32; s++) {
    before += s < id.simd ? sm.equal[s] : 0u;
    count += sm.equal[s];
    first += sm.less[s];
  }
  uint to = first + before;
  for (uint i = begin; i < end; i++) {
    if ((uint)a.experts[i] == e) a.slots[to++] = i;
  }
  const uint size = a.block_rows;
  const uint block0 = first / size + e, block1 = (first + count) / size + e + 1;
  for (uint b = block0 + id.tid; b < block1; b += id.threads) {
    const uint done = u_min((b - block0) * size, count);
    a.blocks[3 * b] = e;
    a.blocks[3 * b + 1] = first + done;
    a.blocks[3 * b + 2] = u_min(count - done, size);
  }
}
