// What callers want of rows of logits without drawing from them, from what vocabulary_stats left:
// log-probability of a target, the largest entries, divergence from a given distribution.
// Grid: a group of 256 threads per row of the block.
// Traffic: one chunk per entry that is reported; for the divergence the row and the given one once.
#include "backend/gpu/kernels/vocabulary_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/vocabulary.h"

struct ScoreShared {
  float parts[4][32];
};

FN void score_top(CON ScoreParams& a, const THR VocabularyRow& row, uint row_index,
                  const THR VocabularyTotal& all, TG ScoreShared& sm, const THR Ids& id) {
  VocabularyRest rest;
  vocabulary_all(a.chunks + row_index * kVocabularyChunks, row, rest, id);
  const ulong to = (ulong)(a.first + row_index) * a.n_top;
  const uint n = u_min(a.n_top, row.n);
  for (uint i = 0; i < n; i++) {
    VocabularyEntry entry;
    vocabulary_take(rest, row, sm.parts, entry, id);
    if (id.tid == 0) {
      a.top_ids[to + i] = (int)entry.token;
      a.top_log_probs[to + i] = (entry.x - all.largest) - m_log(all.sum);
    }
  }
  group_barrier();
}

// Sum of p (log p - log q); an entry with p = 0 adds nothing.
FN void score_divergence(CON ScoreParams& a, const THR VocabularyRow& row, uint row_index,
                         const THR VocabularyTotal& all, TG ScoreShared& sm, const THR Ids& id) {
  DEV const float* log_p = a.reference_log_probs + (ulong)(a.first + row_index) * row.n;
  const float log_sum = m_log(all.sum);
  float sum = 0.0f;
  for (uint i = id.tid; i < row.n; i += id.threads) {
    const float p = m_exp(log_p[i]);
    if (p > 0.0f) sum = m_fma(p, log_p[i] - ((row.x[i] - all.largest) - log_sum), sum);
  }
  sum = group_sum(sum, sm.parts[0], id);
  if (id.tid == 0) a.kl[a.first + row_index] = sum;
}

// A row with a NaN or an infinity has no distribution: its results are NaN and its ids -1.
FN void score_not_finite(CON ScoreParams& a, uint to, const THR Ids& id) {
  const float nan = as_type<float>(0x7fc00000u);
  if (id.tid < a.n_top) {
    a.top_ids[(ulong)to * a.n_top + id.tid] = -1;
    a.top_log_probs[(ulong)to * a.n_top + id.tid] = nan;
  }
  if (id.tid == 0) {
    if (a.targets != nullptr) a.target_log_prob[to] = nan;
    if (a.reference_log_probs != nullptr) a.kl[to] = nan;
  }
}

KERNEL(score_rows, ScoreParams, ScoreShared, 256) {
  const uint i = id.group.x, to = a.first + i;
  if (to < pass_head_rows(a.control)) {
    const VocabularyRow row = {a.logits + (ulong)i * a.vocab_rows, a.vocab_used, a.chunk};
    VocabularyTotal all;
    vocabulary_total(a.chunks + i * kVocabularyChunks, row, 1.0f, sm.parts, all, id);
    if (id.tid == 0) a.not_finite[to] = all.finite ? 0 : 1;
    if (all.finite) {
      if (id.tid == 0 && a.targets != nullptr) {
        const int target = a.targets[to];
        a.target_log_prob[to] = target < 0 ? 0.0f : (row.x[target] - all.largest) - m_log(all.sum);
      }
      score_top(a, row, i, all, sm, id);
      if (a.reference_log_probs != nullptr) score_divergence(a, row, i, all, sm, id);
    } else {
      score_not_finite(a, to, id);
    }
  }
}
