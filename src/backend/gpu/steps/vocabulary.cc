// Chunks of the vocabulary and their scratch.
#include "backend/gpu/steps/vocabulary.h"

#include <algorithm>

#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

constexpr int kChunkUnit = 1024;    // Four entries a thread.
constexpr int kMaxVocab = 1 << 24;  // Ids are compared as floats.

int block_rows(int max_rows) {
  return std::min(max_rows, kHeadBlockRows);
}
std::size_t n_chunks_held(int max_rows) {
  return times(block_rows(max_rows), kVocabularyChunks);
}
std::size_t n_scores(const ModelSpec& spec, int max_rows) {
  return times(block_rows(max_rows), spec.vocab_rows);
}

}  // namespace

VocabularySizes vocabulary_sizes(int vocab_used) {
  LILY_CHECK(vocab_used >= 1 && vocab_used < kMaxVocab);
  const unsigned units = groups_of(vocab_used, kChunkUnit * kVocabularyChunks);
  const unsigned chunk = units * kChunkUnit;
  return {chunk, groups_of(vocab_used, static_cast<int>(chunk))};
}

std::size_t vocabulary_scratch_bytes(const ModelSpec& spec, int max_rows) {
  return 2 * round_up(sizeof(VocabularyChunk) * n_chunks_held(max_rows), kSectionAlign) +
         round_up(4 * n_scores(spec, max_rows), kSectionAlign);
}

VocabularyChunk* logit_chunks(Recorder& to) {
  return to.scratch_of<VocabularyChunk>("chunks of logits", n_chunks_held(to.max_rows()));
}
VocabularyChunk* score_chunks(Recorder& to) {
  return to.scratch_of<VocabularyChunk>("chunks of scores", n_chunks_held(to.max_rows()));
}
float* choose_scores(Recorder& to) {
  return to.scratch_of<float>("scores", n_scores(to.spec(), to.max_rows()));
}

}  // namespace lily::gpu
