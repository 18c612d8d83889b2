// Planted fault: the standard library.
// Found by: 4.0 4.1 text
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) { a.y[id.tid] = std::fabs(a.x[0]); }
