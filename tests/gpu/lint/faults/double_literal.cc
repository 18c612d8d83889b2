// Planted fault: a literal without f.
// Found by: text
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) { a.y[id.tid] = a.x[0] * 0.5; }
