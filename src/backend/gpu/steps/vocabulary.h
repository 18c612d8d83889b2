// The first sweep over a block of logits, for choose and score: how a row is cut into chunks, and
// the scratch that holds what is known of each.
#pragma once

#include "backend/gpu/kernels/vocabulary_params.h"
#include "backend/gpu/recorder.h"

namespace lily::gpu {

struct VocabularySizes {
  unsigned chunk, n_chunks;
};
VocabularySizes vocabulary_sizes(int vocab_used);

// [32, kVocabularyChunks] of the logits, of the scores; [32, V] scores. Only as many rows as a pass
// can have.
VocabularyChunk* logit_chunks(Recorder& to);
VocabularyChunk* score_chunks(Recorder& to);
float* choose_scores(Recorder& to);

inline Range chunks_range(const VocabularyChunk* chunks, int rows) {
  return range(chunks, static_cast<std::size_t>(rows) * kVocabularyChunks);
}

}  // namespace lily::gpu
