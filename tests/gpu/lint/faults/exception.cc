// Planted fault: an exception.
// Found by: 4.0 4.1 text
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) {
  if (a.x[0] < 0.0f) throw 1;
  a.y[id.tid] = 1.0f;
}
