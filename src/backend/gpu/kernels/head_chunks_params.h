// Arguments of head_chunks.cc.
#pragma once

#include "backend/gpu/kernels/linear_params.h"
#include "backend/gpu/kernels/vocabulary_params.h"

struct HeadChunksParams {
  LinearParams linear;          // One part: lm_head, and the logits.
  DEV VocabularyChunk* chunks;  // [32, kVocabularyChunks]
  uint vocab_used;
  uint chunk;  // entries of a chunk, a multiple of 1024
};
LILY_PARAMS(HeadChunksParams, 256);
