// The one place that aborts: a broken invariant, never bad input.
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace lily {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "lily: bug: %s does not hold (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace lily
