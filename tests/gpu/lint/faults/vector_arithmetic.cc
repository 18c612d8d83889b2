// Planted fault: arithmetic on vectors, legal in Metal only.
// Found by: emulator
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

struct B {
  DEV const float4* x;
  DEV float4* y;
};
KERNEL(k, B, NoShared, 64) {
  float4 v = a.x[0];
  a.y[id.tid] = v * v;
}
