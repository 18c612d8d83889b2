// Barriers in shared memory that some threads arrive at, or copies, and others wait for. Included
// after dialect.h.
#pragma once

#include "backend/gpu/cuda/kernels/stage.h"

// n: how many arrive in a phase. By one thread, before a barrier of the group.
FN void arrival_init(ulong* arrival, uint n) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(arrival)), "r"(n)
               : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and has the phase wait for so many bytes of the copy engine's.
FN void arrival_expect(ulong* arrival, uint bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(arrival)),
               "r"(bytes)
               : "memory");
}
// Until all of a phase have arrived: 0 is the first, then 1, then 0 again.
FN void arrival_wait(ulong* arrival, uint phase = 0) {
  asm volatile(
      "{ .reg .pred there; wait: mbarrier.try_wait.parity.shared.b64 there, [%0], %1; @!there bra "
      "wait; }" ::"r"(shared_address(arrival)),
      "r"(phase)
      : "memory");
}
FN void arrive(ulong* arrival) {
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(arrival))
      : "memory");
}
// When the thread's copies so far have arrived.
FN void arrive_with_copies(ulong* arrival) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(arrival))
               : "memory");
}
