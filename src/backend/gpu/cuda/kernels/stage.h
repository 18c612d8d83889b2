// What Hopper has that the dialect does not name: launches that overlap the one before, copies that
// arrive behind the thread's back. Included by the kernels of this folder after
// dialect.h.
//
// A stage is written fetch / wait / finish: what depends on nothing of this pass (weights) is asked
// for first; next_may_start lets the next launch do the same; behind wait_for_inputs everything
// that earlier launches wrote is there. Every thread of every group waits, also where it has
// nothing to do: the launch after this one relies on all before it through this one's end.
#pragma once

FN void next_may_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
FN void wait_for_inputs() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// What another launch wrote is read past the first-level cache, which may hold what it was. Where
// these stand is where memory is asked: neither before wait_for_inputs nor behind a later barrier.
FN float4 load_fresh4(const float* p) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
FN float load_fresh(const float* p) {
  float v;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
  return v;
}

// 128 bytes to the second-level cache.
FN void fetch_to_cache(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

FN uint shared_address(const void* p) {
  return (uint)__cvta_generic_to_shared(p);
}
FN void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(shared_address(to)),
               "l"(from)
               : "memory");
}
FN void copy8(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}
FN void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most kPending of the thread's newest groups of copies are on their way.
template <int kPending>
FN void copies_wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
// Until all have arrived.
FN void copies_wait() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// The first dynamic shared memory of the group.
extern __shared__ __align__(128) uchar group_memory[];

#define CUDA_KERNEL(name, Args, threads, groups_an_sm)                \
  FN void name##_body(const Args& a);                                 \
  extern "C" __global__ void __launch_bounds__(threads, groups_an_sm) \
      name(const __grid_constant__ Args a) {                          \
    name##_body(a);                                                   \
  }                                                                   \
  FN void name##_body(const Args& a)
