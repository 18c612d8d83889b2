// Planted fault: a goto.
// Found by: text
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) {
  uint i = 0;
again:
  if (++i < 3) goto again;
  a.y[id.tid] = (float)i;
}
