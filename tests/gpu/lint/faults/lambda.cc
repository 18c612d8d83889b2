// Planted fault: a lambda.
// Found by: text
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) {
  auto f = [](float v) { return v + 1.0f; };
  a.y[id.tid] = f(a.x[0]);
}
