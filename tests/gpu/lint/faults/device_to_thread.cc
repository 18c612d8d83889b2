// Planted fault: a device pointer given to a parameter of the lane's own space.
// Found by: 4.0 4.1
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

FN float f(THR const float* p, uint i) { return p[i]; }
KERNEL(k, A, NoShared, 64) { a.y[id.tid] = f(a.x, id.tid); }
