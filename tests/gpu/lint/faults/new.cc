// Planted fault: memory from the heap.
// Found by: 4.0 4.1
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) {
  float* p = new float[2];
  a.y[id.tid] = p[0];
}
