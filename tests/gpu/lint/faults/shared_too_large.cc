// Planted fault: more threadgroup memory than 32 KiB.
// Found by: 4.0 4.1 emulator
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

struct S {
  float v[8193];
};
KERNEL(k, A, S, 64) { a.y[id.tid] = sm.v[0]; }
