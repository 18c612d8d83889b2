// Planted fault: a member returns a reference to the lane's space and is not qualified itself.
// Found by: 4.1
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

struct T {
  float v[4];
  THR float& at(uint i) { return v[i]; }
};
KERNEL(k, A, NoShared, 64) {
  T t;
  t.at(0) = 1.0f;
  a.y[id.tid] = t.at(0);
}
