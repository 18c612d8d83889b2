// Planted fault: a type of Metal as a name.
// Found by: 4.0 4.1 text
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) {
  float half = 0.5f;
  a.y[id.tid] = half * a.x[0];
}
