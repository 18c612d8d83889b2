// Planted fault: threadgroup memory given as device memory.
// Found by: 4.0 4.1
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

struct S {
  float v[64];
};
FN float f(DEV const float* p) { return p[0]; }
KERNEL(k, A, S, 64) { a.y[id.tid] = f(sm.v); }
