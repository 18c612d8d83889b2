// ThreadSanitizer's interface for fibers, and nothing where the build has no ThreadSanitizer. The
// emulator itself is compiled without it, so that only what kernels do is watched.
//
// What is ordered for it: a lane begins after all that the caller did; barriers of a group and of a
// simdgroup order their lanes; a dispatch's lanes are before those of dispatches behind
// Emulator::barrier(), and before the caller's code behind it. Nothing else.
#pragma once

#if defined(LILY_GPU_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace lily::gpu::tsan {

#if defined(LILY_GPU_TSAN)
inline constexpr bool kOn = true;
inline void* current() {
  return __tsan_get_current_fiber();
}
inline void* create() {
  return __tsan_create_fiber(0);
}
inline void destroy(void* fiber) {
  __tsan_destroy_fiber(fiber);
}
inline void switch_to(void* fiber) {
  __tsan_switch_to_fiber(fiber, 1);
}  // 1: orders nothing
inline void acquire(void* address) {
  __tsan_acquire(address);
}
inline void release(void* address) {
  __tsan_release(address);
}
#else
inline constexpr bool kOn = false;
inline void* current() {
  return nullptr;
}
inline void* create() {
  return nullptr;
}
inline void destroy(void*) {}
inline void switch_to(void*) {}
inline void acquire(void*) {}
inline void release(void*) {}
#endif

}  // namespace lily::gpu::tsan
