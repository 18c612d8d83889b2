// score: a sweep over the chunks, then a group per row.
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"
#include "backend/gpu/steps/vocabulary.h"

namespace lily::gpu {

void record_score(Recorder& to, const ScoreArgs& args) {
  LILY_CHECK(args.n_top >= 0 && args.n_top <= kMaxTopLogProbs);
  const int rows = head_block_bound(to, args.first);
  const auto height = static_cast<unsigned>(rows);
  const auto first = static_cast<std::size_t>(args.first);
  const auto sizes = vocabulary_sizes(args.vocab_used);
  auto* const chunks = logit_chunks(to);
  VocabularyParams sweep{};
  sweep.control = words_of(args.control);
  sweep.logits = args.logits;
  sweep.chunks = chunks;
  sweep.first = static_cast<unsigned>(args.first);
  sweep.vocab_rows = static_cast<unsigned>(args.vocab_rows);
  sweep.vocab_used = static_cast<unsigned>(args.vocab_used);
  sweep.chunk = sizes.chunk;
  const Range logits = range(args.logits, times(rows, args.vocab_rows));
  to.launch("vocabulary_stats", sweep, {sizes.n_chunks, height}, kVocabularyThreads,
            {range(args.control), logits}, {chunks_range(chunks, rows)});
  const ScoreParams params{.control = sweep.control,
                           .logits = args.logits,
                           .chunks = chunks,
                           .targets = args.targets,
                           .reference_log_probs = args.reference_log_probs,
                           .target_log_prob = args.target_log_prob,
                           .top_ids = args.top_ids,
                           .top_log_probs = args.top_log_probs,
                           .kl = args.kl,
                           .not_finite = args.not_finite,
                           .first = sweep.first,
                           .vocab_rows = sweep.vocab_rows,
                           .vocab_used = sweep.vocab_used,
                           .chunk = sizes.chunk,
                           .n_top = static_cast<unsigned>(args.n_top),
                           .unused = 0};
  const auto of_rows = [&](auto* from, std::size_t width) {
    return from == nullptr ? Range{} : range(from + first * width, height * width);
  };
  const auto n_top = static_cast<std::size_t>(args.n_top);
  to.launch("score_rows", params, {height}, kVocabularyThreads,
            {range(args.control), logits, chunks_range(chunks, rows), of_rows(args.targets, 1),
             of_rows(args.reference_log_probs, sweep.vocab_used)},
            {of_rows(args.target_log_prob, 1), of_rows(args.top_ids, n_top),
             of_rows(args.top_log_probs, n_top), of_rows(args.kl, 1), of_rows(args.not_finite, 1)});
}

}  // namespace lily::gpu
