// Arguments of embed.cc.
#pragma once

#include "backend/gpu/dialect/words.h"

struct EmbedParams {
  DEV const int* control;
  DEV const uint* codes;     // [V, cols * bits / 32]
  DEV const ushort* scales;  // [V, cols / 64] bf16
  DEV const ushort* biases;  // [V, cols / 64] bf16
  DEV float* h;              // [T, cols]
  uint cols, bits;
};
LILY_PARAMS(EmbedParams, 48);
