// Changing stacks: see fiber.h. What a call preserves is pushed on the old stack and popped from
// the new one.
#include "backend/gpu/emulator/fiber.h"

#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#define LILY_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LILY_FIBER_ASAN 1
#endif
#endif
#if defined(LILY_FIBER_ASAN)
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
}
#endif

#if defined(__APPLE__)
#define LILY_ASM_NAME "_lily_switch_stack"
#else
#define LILY_ASM_NAME "lily_switch_stack"
#endif

#if defined(__x86_64__)
// rbp, rbx, r12 .. r15 and the return address are all that a call preserves; the rounding mode
// never changes here.
asm(".text\n"
    ".globl " LILY_ASM_NAME "\n" LILY_ASM_NAME
    ":\n"
    "  pushq %rbp\n"
    "  pushq %rbx\n"
    "  pushq %r12\n"
    "  pushq %r13\n"
    "  pushq %r14\n"
    "  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n"
    "  popq %r14\n"
    "  popq %r13\n"
    "  popq %r12\n"
    "  popq %rbx\n"
    "  popq %rbp\n"
    "  ret\n");
#elif defined(__aarch64__)
// x19 .. x30 and the low halves of v8 .. v15. A new fiber finds its entry in x30.
asm(".text\n"
    ".balign 4\n"
    ".globl " LILY_ASM_NAME "\n" LILY_ASM_NAME
    ":\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n"
    "  stp x21, x22, [sp, #16]\n"
    "  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n"
    "  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n"
    "  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n"
    "  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n"
    "  str x9, [x0]\n"
    "  mov sp, x1\n"
    "  ldp x19, x20, [sp, #0]\n"
    "  ldp x21, x22, [sp, #16]\n"
    "  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n"
    "  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n"
    "  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n"
    "  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n");
#endif
#if LILY_FIBER_ASM
extern "C" void lily_switch_stack(void** save, void* load);
#if defined(__linux__)
// An assembly file without this note would make every stack of the program executable.
asm(".section .note.GNU-stack,\"\",%progbits\n.text\n");
#endif
#endif

namespace lily::gpu {

void prepare_fiber(Fiber& fiber, char* stack, std::size_t stack_bytes, void (*entry)()) {
  fiber.stack = stack;
  fiber.stack_bytes = stack_bytes;
  fiber.sanitizer_stack = nullptr;
#if defined(__x86_64__)
  // From the top: a null return address for entry, so that the stack is aligned as after a call;
  // entry; six registers.
  std::uintptr_t frame[8] = {};
  frame[6] = reinterpret_cast<std::uintptr_t>(entry);
  fiber.stack_pointer = stack + stack_bytes - sizeof frame;
  std::memcpy(fiber.stack_pointer, frame, sizeof frame);
#elif defined(__aarch64__)
  std::uintptr_t frame[20] = {};
  frame[11] = reinterpret_cast<std::uintptr_t>(entry);
  fiber.stack_pointer = stack + stack_bytes - sizeof frame;
  std::memcpy(fiber.stack_pointer, frame, sizeof frame);
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = stack_bytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
#endif
}

#if defined(LILY_FIBER_ASAN)
// Who was left: its stack bounds are learnt on arrival, which matters for the OS thread's own.
static thread_local Fiber* left_fiber = nullptr;
static void arrive(void* sanitizer_stack) {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(sanitizer_stack, &bottom, &bytes);
  left_fiber->stack = static_cast<char*>(const_cast<void*>(bottom));
  left_fiber->stack_bytes = bytes;
}
#endif

void switch_fiber(Fiber& from, Fiber& to) {
#if defined(LILY_FIBER_ASAN)
  left_fiber = &from;
  __sanitizer_start_switch_fiber(&from.sanitizer_stack, to.stack, to.stack_bytes);
#endif
#if LILY_FIBER_ASM
  lily_switch_stack(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
#if defined(LILY_FIBER_ASAN)
  arrive(from.sanitizer_stack);
#endif
}

void fiber_started() {
#if defined(LILY_FIBER_ASAN)
  arrive(nullptr);
#endif
}

void abandon_fiber([[maybe_unused]] Fiber& fiber) {
#if defined(LILY_FIBER_ASAN)
  __asan_unpoison_memory_region(fiber.stack, fiber.stack_bytes);
#endif
}

}  // namespace lily::gpu
