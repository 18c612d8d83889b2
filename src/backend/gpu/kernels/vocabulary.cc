// The first sweep over logits: of each chunk of a row its largest entry, the sum of exponentials
// and whether all is finite; for choose also the scores, logits after mask, bias and penalties, and
// the same of them at the row's temperature. A greedy row without mask, bias and penalties has its
// logits for scores. Grid: x chunks, y rows of the block; groups of 256 threads. A thread owns
// every 256th entry. Traffic: the logits twice (the second time from cache); scores once out.
#include "backend/gpu/kernels/vocabulary_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/vocabulary_chunk.h"

struct VocabularyShared {
  float parts[4][32];
};

// Every operation is fp32 and rounded once, in the order of docs/SAMPLING.md, so that ties are
// those of every other backend.
FN float choose_penalised(DEV const GpuSampling* s, uint token, float x) {
  if (s->repetition_penalty == 1.0f && s->presence_penalty == 0.0f && s->frequency_penalty == 0.0f)
    return x;
  const int count = s->generated[token];
  if (s->repetition_penalty != 1.0f && (count > 0 || s->in_prompt[token] != 0))
    x = x > 0.0f ? x / s->repetition_penalty : x * s->repetition_penalty;
  if (count > 0) {
    x -= s->frequency_penalty * (float)count;
    x -= s->presence_penalty;
  }
  return x;
}

// The scores of x [begin, end). A token may have several biases, added in their order.
FN void choose_scores(DEV const GpuSampling* s, DEV const float* x, DEV float* scores, uint begin,
                      uint end, const THR Ids& id) {
  for (uint i = begin + id.tid; i < end; i += id.threads) {
    float score = x[i];
    for (int j = 0; j < s->n_bias; j++) {
      if ((uint)s->bias_ids[j] == i) score += s->bias_values[j];
    }
    score = choose_penalised(s, i, score);
    const bool allowed = s->allowed == nullptr || ((s->allowed[i / 32] >> (i % 32)) & 1u) != 0;
    scores[i] = allowed && is_finite(score) ? score : vocabulary_none();
  }
}

KERNEL(vocabulary_stats, VocabularyParams, VocabularyShared, 256) {
  const uint row = id.group.y, begin = id.group.x * a.chunk;
  if (a.first + row < pass_head_rows(a.control)) {
    vocabulary_chunk(a.logits + (ulong)row * a.vocab_rows, begin,
                     u_min(begin + a.chunk, a.vocab_used), 1.0f,
                     a.chunks + row * kVocabularyChunks + id.group.x, sm.parts, id);
  }
}

KERNEL(choose_stats, VocabularyParams, VocabularyShared, 256) {
  const uint row = id.group.y, begin = id.group.x * a.chunk;
  if (a.first + row < pass_head_rows(a.control)) {
    DEV const GpuSampling* s = a.samplings[a.first + row];
    DEV const float* x = a.logits + (ulong)row * a.vocab_rows;
    DEV float* scores = a.scores + (ulong)row * a.vocab_used;
    const uint end = u_min(begin + a.chunk, a.vocab_used),
               at = row * kVocabularyChunks + id.group.x;
    if (a.head_chunks == 0) vocabulary_chunk(x, begin, end, 1.0f, a.chunks + at, sm.parts, id);
    if (!choose_as_is(s)) {
      choose_scores(s, x, scores, begin, end, id);
      // The thread that wrote an entry reads it again; the barrier is for sm.parts.
      group_barrier();
      vocabulary_chunk(scores, begin, end,
                       s->temperature > 0.0f ? vocabulary_rate(s->temperature) : 1.0f,
                       a.score_chunks + at, sm.parts, id);
    }
  }
}
