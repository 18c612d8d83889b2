// What is known of one chunk of a row of logits or scores. Included by kernels after dialect.h and
// vocabulary_params.h.
#pragma once

#include "backend/gpu/kernels/vocabulary.h"

// Of x [begin, end): an entry is one thread's. parts [4][32], with a barrier between uses.
FN void vocabulary_chunk(DEV const float* x, uint begin, uint end, float rate,
                         DEV VocabularyChunk* to, TG float (*parts)[32], const THR Ids& id) {
  const float lowest = vocabulary_none();
  float largest = lowest, broken = 0.0f;
  uint at = 0;
  for (uint i = begin + id.tid; i < end; i += id.threads) {
    const float v = x[i];
    if (!is_finite(v)) broken = 1.0f;
    if (v > largest) {
      largest = v;
      at = i;
    }
  }
  const float mine = largest;
  largest = group_max(mine, parts[0], id);
  at = vocabulary_lowest_id(mine == largest, at, parts[1], id);
  float sum = 0.0f;
  for (uint i = begin + id.tid; i < end; i += id.threads)
    sum += vocabulary_weight(x[i], largest, rate);
  sum = group_sum(sum, parts[2], id);
  broken = group_max(broken, parts[3], id);
  if (id.tid == 0) {
    to->largest = largest;
    to->at = at;
    to->sum = sum;
    to->not_finite = broken > 0.0f ? 1u : 0u;
  }
}
