// Planted fault: a derived class.
// Found by: 4.0 text
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

struct B0 {
  float v;
};
struct D : B0 {
  float w;
};
KERNEL(k, A, NoShared, 64) {
  D d;
  d.v = 1.0f;
  a.y[id.tid] = d.v;
}
