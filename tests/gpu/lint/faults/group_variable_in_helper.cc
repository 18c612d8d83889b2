// Planted fault: a threadgroup variable outside a kernel.
// Found by: 4.0 4.1
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

FN float f(float x) {
  TG float t[4];
  t[0] = x;
  return t[0];
}
KERNEL(k, A, NoShared, 64) { a.y[id.tid] = f(a.x[0]); }
