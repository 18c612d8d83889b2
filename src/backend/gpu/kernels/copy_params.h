// Arguments of copy.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

struct CopyParams {
  DEV const uchar* from;
  DEV uchar* to;
  uint bytes_low, bytes_high;  // 64 bits in two
};
LILY_PARAMS(CopyParams, 24);
