// Planted fault: a virtual function.
// Found by: 4.0 4.1
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

struct V {
  virtual float f() { return 1.0f; }
};
KERNEL(k, A, NoShared, 64) {
  V v;
  a.y[id.tid] = v.f();
}
