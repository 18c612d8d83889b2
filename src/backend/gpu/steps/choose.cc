// choose: a sweep over the chunks, then a group per row; before them the head, where it is part of
// it.
#include <cstddef>

#include "backend/gpu/steps/head.h"
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"
#include "backend/gpu/steps/vocabulary.h"

namespace lily::gpu {

#define LILY_SAME_PLACE(member) \
  static_assert(offsetof(GpuSampling, member) == offsetof(SamplingControl, member))
LILY_SAME_PLACE(generated);
LILY_SAME_PLACE(in_prompt);
LILY_SAME_PLACE(bias_ids);
LILY_SAME_PLACE(bias_values);
LILY_SAME_PLACE(allowed);
LILY_SAME_PLACE(temperature);
LILY_SAME_PLACE(top_p);
LILY_SAME_PLACE(min_p);
LILY_SAME_PLACE(repetition_penalty);
LILY_SAME_PLACE(presence_penalty);
LILY_SAME_PLACE(frequency_penalty);
LILY_SAME_PLACE(top_k);
LILY_SAME_PLACE(n_bias);
LILY_SAME_PLACE(n_top);
#undef LILY_SAME_PLACE
static_assert(offsetof(GpuSampling, seed_low) == offsetof(SamplingControl, seed));
static_assert(offsetof(GpuSampling, draw_low) == offsetof(SamplingControl, draw));
static_assert(sizeof(GpuSampling) == sizeof(SamplingControl));
static_assert(offsetof(GpuChosen, log_prob) == offsetof(ChosenToken, log_prob));
static_assert(offsetof(GpuChosen, top_ids) == offsetof(ChosenToken, top_ids));
static_assert(offsetof(GpuChosen, top_log_probs) == offsetof(ChosenToken, top_log_probs));
static_assert(sizeof(GpuChosen) == sizeof(ChosenToken));

void record_choose(Recorder& to, const ChooseArgs& args, const HeadArgs* head) {
  const int rows = head_block_bound(to, args.first);
  const auto height = static_cast<unsigned>(rows);
  const auto sizes = vocabulary_sizes(args.vocab_used);
  LILY_CHECK(args.vocab_used <= args.vocab_rows && args.vocab_rows <= to.spec().vocab_rows);
  auto* const samplings = reinterpret_cast<GpuSampling* const*>(args.controls);
  const VocabularyParams sweep{.control = words_of(args.control),
                               .logits = args.logits,
                               .chunks = logit_chunks(to),
                               .samplings = samplings,
                               .scores = choose_scores(to),
                               .score_chunks = score_chunks(to),
                               .first = static_cast<unsigned>(args.first),
                               .vocab_rows = static_cast<unsigned>(args.vocab_rows),
                               .vocab_used = static_cast<unsigned>(args.vocab_used),
                               .chunk = sizes.chunk,
                               .head_chunks = head == nullptr ? 0u : 1u,
                               .unused = 0};
  if (head != nullptr) {
    LILY_CHECK(head->logits == args.logits && head->first == args.first);
    record_head_chunks(to, *head, sweep.chunks, args.vocab_used);
  }
  const Range control = range(args.control),
              logits = range(args.logits, times(rows, args.vocab_rows)),
              settings = range(args.controls + args.first, height),
              chunks = chunks_range(sweep.chunks, rows),
              scores = range(sweep.scores, times(rows, args.vocab_used)),
              of_scores = chunks_range(sweep.score_chunks, rows);
  to.launch("choose_stats", sweep, {sizes.n_chunks, height}, kVocabularyThreads,
            {control, logits, settings, scores, kIndirect},
            {head == nullptr ? chunks : Range{}, scores, of_scores});
  const ChooseParams params{.control = sweep.control,
                            .logits = args.logits,
                            .chunks = sweep.chunks,
                            .samplings = samplings,
                            .scores = sweep.scores,
                            .score_chunks = sweep.score_chunks,
                            .chosen = reinterpret_cast<GpuChosen*>(args.chosen),
                            .next_tokens = args.next_tokens,
                            .first = sweep.first,
                            .vocab_rows = sweep.vocab_rows,
                            .vocab_used = sweep.vocab_used,
                            .chunk = sizes.chunk};
  const Range next =
      args.next_tokens == nullptr ? Range{} : range(args.next_tokens + args.first, height);
  to.launch("choose_rows", params, {height}, kVocabularyThreads,
            {control, logits, settings, chunks, scores, of_scores, kIndirect},
            {range(args.chosen + args.first, height), next, kIndirect});
}

}  // namespace lily::gpu
