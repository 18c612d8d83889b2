// LILY_CHECK: a condition that only a bug can break; kept in release builds. LILY_DCHECK: the same inside hot loops, debug only.
#pragma once

namespace lily {

// Prints the place and the condition on standard error and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace lily

#define LILY_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::lily::check_failed(#condition, __FILE__, __LINE__))
#ifdef NDEBUG
#define LILY_DCHECK(condition) static_cast<void>(0)
#else
#define LILY_DCHECK(condition) LILY_CHECK(condition)
#endif
