// Right: everything that is right beside the faults.
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

FN float f(DEV const float* p, uint i) { return p[i]; }
KERNEL(k, A, NoShared, 64) { a.y[id.tid] = f(a.x, id.tid); }
