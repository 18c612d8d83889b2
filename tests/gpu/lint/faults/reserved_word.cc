// Planted fault: a word of Metal as a name, unknown to other compilers.
// Found by: text
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

KERNEL(k, A, NoShared, 64) {
  const float fragment = a.x[0];
  a.y[id.tid] = fragment;
}
