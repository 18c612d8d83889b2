// Arguments of vocabulary.cc, choose.cc and score.cc; SamplingControl and ChosenToken of
// backend/args.h as kernels see them: the same bytes. steps/ holds the two to each other.
#pragma once

#include "backend/gpu/dialect/words.h"

// A row of logits lies in at most this many chunks: one a thread of the kernels that read them.
enum { kVocabularyChunks = 256, kVocabularyThreads = 256 };

// What one chunk holds.
struct VocabularyChunk {
  float largest;
  uint at;          // id of the largest, the lowest on a tie
  float sum;        // of exp((x - largest) / temperature); 1 for logits
  uint not_finite;  // 1 where an entry is NaN or infinite
};

struct GpuSampling {
  DEV int* generated;
  DEV const uchar* in_prompt;
  DEV const int* bias_ids;
  DEV const float* bias_values;
  DEV const uint* allowed;
  uint seed_low, seed_high, draw_low, draw_high;
  float temperature, top_p, min_p;
  float repetition_penalty, presence_penalty, frequency_penalty;
  int top_k, n_bias, n_top, unused;
};

struct GpuChosen {
  int token, not_finite;
  float log_prob;
  int n_top;
  int top_ids[20];
  float top_log_probs[20];
};

// Of the head rows first .. first + 31; row i of logits, scores and chunks belongs to head row
// first + i. An entry that may not be chosen has a score of minus infinity.
struct VocabularyParams {
  DEV const int* control;
  DEV const float* logits;                // [32, vocab_rows]
  DEV VocabularyChunk* chunks;            // [32, kVocabularyChunks] of the logits
  DEV GpuSampling* DEV const* samplings;  // [n_head_rows]; this and what follows: choose_stats only
  DEV float* scores;                      // [32, vocab_used]: logits after mask, bias and penalties
  DEV VocabularyChunk* score_chunks;      // [32, kVocabularyChunks] of the scores
  uint first, vocab_rows, vocab_used;
  uint chunk;        // entries of a chunk, a multiple of 1024
  uint head_chunks;  // Not 0: the head's product has filled chunks.
  uint unused;
};
LILY_PARAMS(VocabularyParams, 72);

struct ChooseParams {
  DEV const int* control;
  DEV const float* logits;
  DEV const VocabularyChunk* chunks;
  DEV GpuSampling* DEV const* samplings;
  DEV const float* scores;
  DEV const VocabularyChunk* score_chunks;
  DEV GpuChosen* chosen;  // [n_head_rows]
  DEV int* next_tokens;   // null, or [n_head_rows]
  uint first, vocab_rows, vocab_used;
  uint chunk;
};
LILY_PARAMS(ChooseParams, 80);

struct ScoreParams {
  DEV const int* control;
  DEV const float* logits;
  DEV const VocabularyChunk* chunks;
  DEV const int* targets;                // null, or [n_head_rows]
  DEV const float* reference_log_probs;  // null, or [n_head_rows, vocab_used]
  DEV float* target_log_prob;
  DEV int* top_ids;  // [n_head_rows, n_top]
  DEV float* top_log_probs;
  DEV float* kl;
  DEV int* not_finite;
  uint first, vocab_rows, vocab_used;
  uint chunk;
  uint n_top, unused;
};
LILY_PARAMS(ScoreParams, 104);
