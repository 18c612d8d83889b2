// Planted fault: data of the file that is not constant.
// Found by: 4.0
#include "backend/gpu/dialect/dialect.h"

struct A {
  DEV const float* x;
  DEV float* y;
};

static const float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
KERNEL(k, A, NoShared, 64) { a.y[id.tid] = table[id.tid & 3u]; }
