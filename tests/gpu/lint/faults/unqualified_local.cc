// Planted fault: a local pointer that names no space.
// Found by: 4.0 ast
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) {
  const float* p = a.x;
  a.y[id.tid] = p[id.tid];
}
