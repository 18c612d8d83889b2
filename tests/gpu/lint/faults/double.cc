// Planted fault: a double.
// Found by: 4.0 4.1 text
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) {
  double d = 1.5f;
  a.y[id.tid] = a.x[0] * (float)d;
}
