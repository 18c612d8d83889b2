// Planted fault: the arguments are written.
// Found by: 4.0 4.1
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

struct B {
  DEV float* y;
  uint n;
};
KERNEL(k, B, NoShared, 64) {
  a.n = 3;
  a.y[id.tid] = 1.0f;
}
