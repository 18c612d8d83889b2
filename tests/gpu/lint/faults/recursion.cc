// Planted fault: a function that calls itself.
// Found by: text
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

FN float f(float x, uint n) { return n == 0 ? x : f(x + 1.0f, n - 1); }
KERNEL(k, A, NoShared, 64) { a.y[id.tid] = f(a.x[0], id.tid); }
