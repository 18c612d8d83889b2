// Planted fault: a method called on a threadgroup object.
// Found by: 4.0
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

struct S {
  float v[4];
  float get(uint i) { return v[i]; }
};
KERNEL(k, A, S, 64) { a.y[id.tid] = sm.get(0); }
