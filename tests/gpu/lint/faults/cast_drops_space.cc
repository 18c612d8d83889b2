// Planted fault: a cast that drops the space.
// Found by: 4.0 ast
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) {
  const uint* v = (const uint*)a.x;
  a.y[id.tid] = (float)v[0];
}
