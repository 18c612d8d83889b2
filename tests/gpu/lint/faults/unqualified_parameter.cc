// Planted fault: a parameter that names no space.
// Found by: 4.0 ast
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

FN float f(const float* p, uint i) { return p[i]; }
KERNEL(k, A, NoShared, 64) { a.y[id.tid] = f(a.x, id.tid); }
