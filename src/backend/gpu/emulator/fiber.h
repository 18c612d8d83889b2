// A stack of its own and a way to change to it: the least of a coroutine. x86-64 and aarch64 in a
// few instructions, ucontext elsewhere. Tells AddressSanitizer of each change.
#pragma once

#include <cstddef>

#if defined(__x86_64__) || defined(__aarch64__)
#define LILY_FIBER_ASM 1
#else
#include <ucontext.h>
#define LILY_FIBER_ASM 0
#endif

namespace lily::gpu {

// Where a stopped thread of control goes on. A default one stands for the code that first leaves
// it.
struct Fiber {
#if LILY_FIBER_ASM
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
  char* stack = nullptr;  // Lowest address; null for the OS thread's own.
  std::size_t stack_bytes = 0;
  void* sanitizer_stack = nullptr;  // AddressSanitizer's and ThreadSanitizer's ideas of it.
  void* tsan = nullptr;
};

// Lays out a fiber that runs entry() on its stack. entry never returns.
void prepare_fiber(Fiber& fiber, char* stack, std::size_t stack_bytes, void (*entry)());

// Stops here and goes on in `to`; returns when somebody switches to `from`.
void switch_fiber(Fiber& from, Fiber& to);

// Called first thing by entry(): completes the switch that started it.
void fiber_started();

// The frames that lie on a stack are given up: nobody will return to them.
void abandon_fiber(Fiber& fiber);

}  // namespace lily::gpu
