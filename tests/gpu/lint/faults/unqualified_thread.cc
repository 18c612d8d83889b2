// Planted fault: a pointer to a lane's data that names no space.
// Found by: ast
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

FN float f(const float* p) { return p[0]; }
KERNEL(k, A, NoShared, 64) {
  float t[2] = {a.x[0], 1.0f};
  a.y[id.tid] = f(t);
}
